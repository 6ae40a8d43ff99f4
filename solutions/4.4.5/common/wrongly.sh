# Clear the WebApp $WEBAPP in the namespace $NAMESPACE as everybody does first:
# take the finalizer off, and do nothing else.
set -eu

# phase4:solution
kubectl patch webapp "$WEBAPP" -n "$NAMESPACE" --type=merge -p '{"metadata":{"finalizers":null}}'
# phase4:stub
# # TODO
# phase4:end
