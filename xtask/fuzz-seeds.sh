#!/bin/sh
# Makes seeds of the fuzz targets under offload-bundle/fuzz by the real tools, in the current folder: containers of every kind around a few images.
#
# Usage: fuzz-seeds.sh ROOT LLVM CUDA. Without CUDA's tools there are only those of HIP and of kept results.
set -eu
root=$1 llvm=$2/bin cuda=$3/bin

# Offload binaries, host objects, programs and archives around the images of one fatbin. $1 begins their names.
around() {
    cat >main.c <<'EOF'
int main(void) { return 0; }
__asm__(".section .nv_fatbin,\"a\"\n.p2align 3\n.incbin \"whole.fatbin\"\n.text");
EOF
    image=--image=file=whole.fatbin,triple=nvptx64-nvidia-cuda,kind=cuda
    "$llvm/llvm-offload-binary" -o "$1images.bin" $image,arch=sm_80 $image,arch=sm_90a
    "$llvm/clang" -c main.c -o "$1with-images.o" -Xclang "-fembed-offload-object=$1images.bin"
    "$llvm/clang" main.c -fuse-ld=lld -o "$1program"
    "$llvm/clang" -shared -fPIC main.c -fuse-ld=lld -o "$1library.so"
    for format in gnu bsd; do
        "$llvm/llvm-ar" --format=$format rcs "$1$format.a" "$1with-images.o" whole.fatbin
    done
}

# Any version of CUDA will do.
if [ -f "$cuda/fatbinary" ]; then
    cp "$root/offload-bundle/tests/driver-truth/c21_sass90a_ptx80.fatbin" whole.fatbin
    around ''
    # Pages of machine code for one target, so that dropping it changes the layout of a program.
    printf '.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n' >k.ptx
    for arch in 80 90; do
        "$cuda/ptxas" -arch sm_$arch k.ptx -o $arch.cubin
    done
    one=--image3=kind=elf,sm=80,file=80.cubin
    "$cuda/fatbinary" --create=large.fatbin --image3=kind=elf,sm=90,file=90.cubin $one $one $one $one $one
    cp large.fatbin whole.fatbin
    around large-
fi

# Objects and code objects for AMD's GPUs, bundles of them, and a library with bundles.
cat >k.hip <<'EOF'
extern "C" __attribute__((global)) void k(int *x) { __attribute__((shared)) int s[9]; s[*x] = 1; *x = s[1]; }
EOF
for arch in gfx90a gfx1100; do
    options="-x hip --cuda-device-only -nogpuinc -nogpulib --no-gpu-bundle-output -O1 --offload-arch=$arch"
    "$llvm/clang" $options k.hip -o $arch.elf
    "$llvm/clang" $options k.hip -S -o $arch.s
    "$llvm/clang" -target amdgcn-amd-amdhsa -mcpu=$arch -c $arch.s -o $arch.o
done
targets=-targets=host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx90a,hip-amdgcn-amd-amdhsa--gfx1100
bundle="$llvm/clang-offload-bundler -type=o $targets -input=/dev/null -input=gfx90a.elf -input=gfx1100.elf"
$bundle -bundle-align=4096 -output=plain.hipfb
$bundle -compress -output=packed.hipfb
printf '.section .hip_fatbin,"a"\n.p2align 12\n.incbin "plain.hipfb"\n.p2align 12\n.incbin "packed.hipfb"\n' >hip.s
"$llvm/clang" -shared -nostdlib -fuse-ld=lld hip.s -o hip.so

# A section of kept results, and an object with it.
python3 "$root/lit-tests/tests/bundle/Inputs/results.py" kept.results 1 2
printf '.section .fatlink.results,"e"\n.p2align 4\n.incbin "kept.results"\n' >kept.s
"$llvm/clang" -c kept.s -o kept.o
