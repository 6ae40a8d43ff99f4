# Clear the WebApp $WEBAPP in the namespace $NAMESPACE rightly: mend what keeps the
# operator from its cleanup. It runs as the ServiceAccount $OPERATOR of the namespace
# phase4-system; its roles have the same name.
set -eu

# phase4:solution
kubectl patch role "$OPERATOR" -n dns --type=json \
  -p '[{"op": "add", "path": "/rules/0/verbs/-", "value": "delete"}]'
# phase4:stub
# # TODO
# phase4:end
