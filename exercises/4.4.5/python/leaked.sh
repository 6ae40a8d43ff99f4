# Print the name of each record in the namespace dns whose WebApp is no more, a line each.
# A record is called record-UID, with the UID of its WebApp.
set -eu

# TODO
