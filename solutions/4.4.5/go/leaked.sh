# Print the name of each record in the namespace dns whose WebApp is no more, a line each.
# A record is called record-UID, with the UID of its WebApp.
set -eu

# phase4:solution
work=$(mktemp -d)
kubectl get configmaps -n dns -o name | sed -n 's|^configmap/record-||p' | sort > "$work/records"
kubectl get webapps -A -o custom-columns=UID:.metadata.uid --no-headers | sort > "$work/webapps"
comm -23 "$work/records" "$work/webapps" | sed 's|^|record-|'
# phase4:stub
# # TODO
# phase4:end
