# fails.sh COMMAND...: a link that must fail, with exit code 1 or that of $CODE. It must leave nothing in TMPDIR and no
# output at ./out. What it said comes back on stdout.
mkdir -p tmp
TMPDIR=$PWD/tmp "$@" > said 2>&1
code=$?
cat said
[ $code = "${CODE:-1}" ] || { echo "fails.sh: exit code $code" >&2; exit 1; }
rmdir tmp || exit 1
[ ! -e out ] || { echo "fails.sh: there is an output" >&2; exit 1; }
