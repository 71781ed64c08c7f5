# small_disks.sh RIGHT COMMAND...: for disks of many sizes, or of $SIZES, runs the command with an empty cache and its temporary files on the disk, and then
# again where there is room. A run that succeeds has to leave the bytes of RIGHT in ./out, one that fails has to leave nothing, and the second
# run has to succeed. Prints all errors, and what is wrong.
right=$1
shift
for size in ${SIZES:-4k 12k 32k 44k 48k 72k 96k 128k 256k}; do
  rm -rf cache out disk
  mkdir disk
  if SIZE=$size TMPDIR=$PWD/disk sh "$(dirname "$0")/small_disk.sh" disk "$@" >said 2>&1; then
    cmp out "$right" || echo "wrong: the first link on a disk of $size"
  elif [ -e out ]; then
    echo "wrong: a link that failed on a disk of $size left its output"
  fi
  grep error: said
  rm -f out
  "$@" && cmp out "$right" || echo "wrong: the link after that on a disk of $size"
done
