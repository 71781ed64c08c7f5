# lib.sh OUT.so TARGET...: a library of nvcc with a kernel named like it, for targets as PyTorch writes them: 80 (machine code), 80+PTX
# (and PTX), 80-virtual (PTX alone). $FLAGS are options of nvcc in place of --cudart=none.
set -e
out=$1 options=
shift
for target in "$@"; do
  number=${target%%[+-]*}
  case $target in
    *+PTX) code="[sm_$number,compute_$number]" ;;
    *-virtual) code=compute_$number ;;
    *) code=sm_$number ;;
  esac
  options="$options -gencode=arch=compute_$number,code=$code"
done
echo "extern \"C\" __global__ void $(basename "$out" .so)(float *x) { *x += 1; }" >"$out.cu"
options="-Xcompiler -fPIC ${FLAGS:---cudart=none} $options"
# ccache knows most of the objects already.
ccache nvcc $options -c "$out.cu" -o "$out.o"
nvcc -shared $options "$out.o" -o "$out"
