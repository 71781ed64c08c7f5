# Runs a command in a root folder of its own, which has no /proc: without_proc.sh FILES COMMAND...
# FILES are the programs and inputs that it needs, by their absolute paths, in one word.
set -e
files=$1
shift
mkdir -p "root$PWD/tmp" root/dev
# For the standard input of tools.
: > root/dev/null
for file in $files; do
  # A dynamic program's libraries and interpreter are the absolute paths that ldd prints.
  for needed in "$file" $(ldd "$file" 2>/dev/null | grep -o '/[^ ]*'); do
    [ -e "root$needed" ] || { mkdir -p "root$(dirname "$needed")" && cp -L "$needed" "root$needed"; }
  done
done
enter=
[ "$(id -u)" = 0 ] || enter="unshare --map-root-user"
status=0
TMPDIR=$PWD/tmp $enter chroot root "$@" || status=$?
echo "left: $(ls "root$PWD/tmp")"
cp "root$PWD"/out* . 2>/dev/null || true
rm -rf root
exit $status
