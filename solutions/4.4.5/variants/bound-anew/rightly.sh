# A role of its own for the one right, beside the one that lacks it.
set -eu

kubectl create role "$OPERATOR-cleanup" -n dns --verb=delete --resource=configmaps
kubectl create rolebinding "$OPERATOR-cleanup" -n dns \
  --role="$OPERATOR-cleanup" --serviceaccount="phase4-system:$OPERATOR"
