# fatbin.sh OUT ENTRY...: a fatbin by NVIDIA's own tool, uncompressed unless $FLAGS changes that.
#
# An ENTRY is KIND:LABEL[:VERSION[:TARGET]]: sass:90a, ptx:80:9.1 (a PTX version), ptx:90:9.0:80 (for another GPU than its label), lto:80.
set -e
out=$1 images=
shift
for entry in "$@"; do
  IFS=: read -r kind label version target <<END
$entry
END
  stem=$out.$(echo "$entry" | tr : _)
  printf '.version %s\n.target sm_%s\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n' "${version:-9.0}" "${target:-$label}" >"$stem.ptx"
  case $kind in
    ptx) image=kind=ptx,sm=$label,file=$stem.ptx ;;
    sass) ptxas -arch "sm_${target:-$label}" "$stem.ptx" -o "$stem.cubin"; image=kind=elf,sm=$label,file=$stem.cubin ;;
    lto) printf '\355\103\116\177\001\101%0100d' 0 >"$stem.lto"; image=kind=nvvm,sm=$label,file=$stem.lto ;;
  esac
  images="$images --image3=$image"
done
fatbinary -64 ${FLAGS:---compress=false} "--create=$out" $images
