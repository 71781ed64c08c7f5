# small_disk.sh FOLDER COMMAND...: runs the command where a disk of 64 KiB is mounted on the folder, in a mount namespace of its own.
folder=$1
shift
exec unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o size=64k tmpfs "$0" && "$@"; code=$?; ls -A "$0"; exit $code' "$folder" "$@"
