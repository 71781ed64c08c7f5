# small_caches.sh RIGHT COMMAND...: for disks of many sizes, or of $SIZES, runs the command with its cache on the disk, then with what that left there as
# the cache of a disk with room, and then with its output on a small disk. A run that succeeds has to leave the bytes of RIGHT, one that
# fails has to leave no output, and the second one has to succeed. Prints all errors, and what is wrong.
right=$1
shift
small_disk=$(dirname "$0")/small_disk.sh
for size in ${SIZES:-4k 24k 48k 128k}; do
  rm -rf cache out disk
  mkdir disk
  if SIZE=$size sh "$small_disk" disk sh -c 'chmod go-w disk; "$@" --offload-cache=disk -o out; code=$?; cp -R disk cache; exit $code' link "$@" >said 2>&1; then
    cmp out "$right" || echo "wrong: the link with a cache of $size"
  elif [ -e out ]; then
    echo "wrong: a link that failed with a cache of $size left its output"
  fi
  grep fatlink: said
  rm -f out
  "$@" --offload-cache=cache -o out && cmp out "$right" || echo "wrong: the link with what a cache of $size has"
  if SIZE=$size sh "$small_disk" disk sh -c '"$@" -o disk/out && cmp disk/out '"$right" link "$@" >said 2>&1; then
    [ "$(cat said)" = out ] || echo "wrong: the link to a disk of $size left more than its output"
  elif grep '^out' said; then
    echo "wrong: a link that failed left its output on a disk of $size"
  fi
  grep error: said || true
done
