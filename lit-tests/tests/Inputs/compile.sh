# compile.sh COMMAND... SOURCE...: compiles each source by ccache, which takes one at a time, so that tests and runs share objects. The compilers
# are not what is tested.
count=$# sources=
while [ "$count" -gt 0 ]; do
  case $1 in
    *.cu | *.cpp | *.c | *.hip) sources="$sources $1" ;;
    *) set -- "$@" "$1" ;;
  esac
  shift
  count=$((count - 1))
done
[ -n "$sources" ] || exec "$@"
for source in $sources; do
  # ccache 4.7 preprocesses for the host alone, and misses what has changed for the device.
  hashed=$source
  for header in "$(dirname "$source")"/*.h; do
    [ ! -e "$header" ] || hashed=$hashed:$header
  done
  CCACHE_EXTRAFILES=$hashed ccache "$@" "$source" || exit
done
