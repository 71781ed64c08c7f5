# two_calls.sh EMBED: a.o, whose kernels call functions of f.o and g.o, and libx.a of these two and h.o, which nothing needs.
set -e
inputs=$(dirname "$0")
echo > none.c
for name in f g h; do
  sed "s/NAME/$name/" "$inputs/member.ll" > $name.ll
  sh "$1" $name.o none.c sm_90=$name.ll
done
sh "$1" a.o "$inputs/../../Inputs/main.c" sm_90="$inputs/two_calls.ll"
llvm-ar rc libx.a h.o g.o f.o
