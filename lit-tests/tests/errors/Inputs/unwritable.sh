# Runs a link, or asks for an answer, with standard streams that are full, closed, or pipes without a reader.
# usage: unwritable.sh FATLINK answer|link OPTION...
set -e
fatlink=$1 mode=$2
shift 2

check() {
  if [ "$mode" = link ]; then
    cuobjdump --list-elf out | grep -q sm_90
    rm out
  fi
}

if [ "$mode" = answer ]; then
  ! "$fatlink" "$@" >/dev/full || exit 1
else
  set -- "$@" -shared a.o -o out
  "$fatlink" "$@" >/dev/full
  check
  "$fatlink" "$@" >/dev/null 2>/dev/full
  check
  "$fatlink" "$@" >/dev/full 2>&1
  check
fi
"$fatlink" "$@" >&- 2>/dev/null
check
"$fatlink" "$@" >/dev/null 2>&-
check
"$fatlink" "$@" <&- >&- 2>&-
check
# The reader is gone before anything is written.
for streams in 1 2 12; do
  rm -f pipe && mkfifo pipe
  sh -c 'exec < pipe' &
  exec 3> pipe
  wait $!
  case $streams in
    1) "$fatlink" "$@" >&3 ;;
    2) "$fatlink" "$@" >/dev/null 2>&3 ;;
    12) "$fatlink" "$@" >&3 2>&3 ;;
  esac
  exec 3>&-
  check
done
rm pipe
