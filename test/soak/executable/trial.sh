# What a user does with the executable on a machine that has PostgreSQL, and of ours that one file: as root and as the server's user.
# $DATABASE_URL is a server on /disk, and run-sql runs the SQL of its argument there. Ends at the first step that fails.
set -eu
export NO_COLOR=1 COLUMNS=120 SAFEMIGRATE_CLONE=cluster

# step PATTERN COMMAND...: it has to end with 0, and its output to have this.
step() {
  pattern=$1
  shift
  status=0
  out=$("$@" 2>&1) || status=$?
  printf -- '--- %s\n%s\n[exit code %s]\n' "$*" "$out" "$status"
  [ "$status" = 0 ] || exit 1
  printf '%s\n' "$out" | grep -Eq -- "$pattern" || { echo "expected: $pattern"; exit 1; }
}
until_true() {
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 6000 ] || { echo "never true: $*"; exit 1; }
    sleep 0.1
  done
}
ended() { ! grep -l 'pg_sleep.1234[5]' /proc/[0-9]*/cmdline 2> /dev/null; }
as_before() { [ "$(ls -A /disk)" = "$before" ]; }

before=$(ls -A /disk)
step 'cluster +yes.*reflink' safemigrate doctor
step '' safemigrate -- run-sql 'ALTER TABLE t ADD COLUMN n int'
step '' safemigrate apply --yes -- run-sql 'ALTER TABLE t ADD COLUMN n int'
step '' safemigrate swap --yes -- run-sql 'ALTER TABLE t ALTER COLUMN id TYPE bigint'
step '' safemigrate clean --originals --older-than 0s
step '' run-sql 'ALTER TABLE t DROP COLUMN n; ALTER TABLE t ALTER COLUMN id TYPE int'
until_true as_before

# A watchdog removes a clone in a folder, clean one in the server. The words of the command are printed too, so it computes what is waited for.
for way in cluster template; do
  SAFEMIGRATE_CLONE=$way safemigrate -- sh -c 'echo begun $((40 + 2)); exec run-sql "SELECT pg_sleep(12345)"' > /tmp/killed-$$ 2>&1 &
  tool=$!
  until_true grep -qs 'begun 42' /tmp/killed-$$
  kill -9 $tool
  step '' safemigrate list
  step '' safemigrate clean
  until_true as_before
  step '^Nothing of safemigrate' safemigrate list
  # Its connection has ended with the clone.
  until_true ended
done
echo "done as $(id -un)"
