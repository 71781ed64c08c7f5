# small_disk.sh FOLDER COMMAND...: runs the command where a disk of 64 KiB, or of $SIZE, is mounted on the folder, and lists what is left there.
folder=$1
shift
mount='mount -t tmpfs -o size='${SIZE:-64k}' tmpfs "$0"'
run="$mount"' && "$@"; code=$?; ls -A "$0"; exit $code'
# In a mount namespace of its own, the disk goes with the command. In a chroot nobody gets a user namespace, and one whose / is no mount
# point has no private mounts either: there root mounts the disk for all to see and removes it.
for namespace in "--user --map-root-user --mount" "--mount"; do
  if unshare $namespace sh -c "$mount" "$folder" 2>/dev/null; then
    exec unshare $namespace sh -c "$run" "$folder" "$@"
  fi
done
trap 'umount "$folder"' EXIT
sh -c "$run" "$folder" "$@"
