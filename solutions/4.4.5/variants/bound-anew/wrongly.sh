# The same through a JSON patch.
set -eu

kubectl patch webapps.phase4.example.com "$WEBAPP" -n "$NAMESPACE" --type=json \
  -p '[{"op": "remove", "path": "/metadata/finalizers"}]'
