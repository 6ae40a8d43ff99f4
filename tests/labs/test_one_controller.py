"""The controller that 4.1.3 runs and the one that 4.1.4 makes talk are the same program."""

import ast

from grader.course import ROOT


def _parts(path: str) -> list[str]:
    """The statements of a module, without its docstring, each as its source."""
    source = (ROOT / path).read_text()
    return [ast.get_source_segment(source, node) for node in ast.parse(source).body[1:]]


def test_the_starter_of_4_1_4_is_the_course_s_controller_with_emit_added():
    controller = _parts("foo_controller/controller.py")
    starter = _parts("exercises/4.1.4/python/stages.py")
    added = [part for part in starter if part not in controller]
    assert [part.split("(")[0] for part in added] == ["_stdout = threading.Lock", "def emit"]
    assert [part for part in starter if part not in added] == controller
