# with_image.sh IMAGE FOLDER COMMAND...: runs the command where the file system of the image is mounted on the folder, for reading unless
# $MOUNT says otherwise.
image=$1 folder=$2
shift 2
mount -o "${MOUNT:-loop,ro}" "$image" "$folder" || exit 125
"$@"
code=$?
umount "$folder"
exit $code
