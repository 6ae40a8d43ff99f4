# Print the name of each record in the namespace dns whose WebApp is no more, a line each.
# A record is called record-UID, with the UID of its WebApp.
set -eu

# phase4:solution
uids=$(kubectl get webapps --all-namespaces -o jsonpath='{.items[*].metadata.uid}')
for record in $(kubectl get configmaps -n dns -o jsonpath='{.items[*].metadata.name}'); do
  case "$record" in
    record-*) ;;
    *) continue ;;
  esac
  case " $uids " in
    *" ${record#record-} "*) ;;
    *) echo "$record" ;;
  esac
done
# phase4:stub
# # TODO
# phase4:end
