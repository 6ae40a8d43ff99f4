# Clear the WebApp $WEBAPP in the namespace $NAMESPACE as everybody does first:
# take the finalizer off, and do nothing else.
set -eu

# TODO
