# embed.sh OUT.o HOST.c ARCH=DEVICE...: a host object with device images in it, as clang makes them from a .cu file,
# in a few milliseconds. The images go into one offload binary, in order. A DEVICE in LLVM IR (.ll) is assembled to
# bitcode, one in PTX (.ptx) to a relocatable cubin; anything else is taken as it is. $CFLAGS are for the host compiler.
set -e
out=$1 host=$2
shift 2
images=
for image in "$@"; do
  arch=${image%%=*} file=${image#*=}
  case $file in
    *.ll) llvm-as "$file" -o "$out.$arch.bc" && file=$out.$arch.bc ;;
    *.ptx) ptxas -c -arch "$arch" "$file" -o "$out.$arch.cubin" && file=$out.$arch.cubin ;;
  esac
  images="$images --image=file=$file,triple=nvptx64-nvidia-cuda,arch=$arch,kind=cuda"
done
llvm-offload-binary -o "$out.images" $images
clang $CFLAGS -c -I "$(dirname "$0")" "$host" -Xclang -fembed-offload-object="$out.images" -o "$out"
