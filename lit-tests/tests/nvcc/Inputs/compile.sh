# compile.sh KIND CODE [UNIT...]: nvcc compiles the units, caller and callee if none is named, to UNIT.KIND.o with the code that -gencode
# names; several are separated by blanks. A unit that is not in the test's folder is one of this folder. ccache knows most of them
# already, and C++17's headers would take more time.
set -e
kind=$1 code=$2
shift 2
options=
for one in $code; do options="$options -gencode $one"; done
for unit in ${*:-caller callee}; do
  source=$unit.cu
  [ -e "$source" ] || source=$(dirname "$0")/$unit.cu
  ccache nvcc -std=c++14 $options -Xcompiler -fPIC -dc "$source" -o "$unit.$kind.o"
done
