# Read it, leave the line out, and put it back.
set -eu

kubectl get webapp "$WEBAPP" -n "$NAMESPACE" -o json |
  python3 -c 'import json, sys; o = json.load(sys.stdin); o["metadata"]["finalizers"] = []; print(json.dumps(o))' |
  kubectl replace -f -
