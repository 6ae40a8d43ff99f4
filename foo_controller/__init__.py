"""The course's own small controller: for every Foo, one Deployment (see ``controller.py``)."""
