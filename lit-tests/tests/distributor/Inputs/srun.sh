#!/bin/sh
# What fatlink-slurm needs of srun: starts as many tasks as --ntasks= says, side by side, and shows its options.
echo "srun with SLURM_PTY_PORT=$SLURM_PTY_PORT"
tasks=1
while :; do
  case $1 in
    --ntasks=*) tasks=${1#--ntasks=} ;;
    -*) ;;
    *) break ;;
  esac
  echo "srun $1"
  shift
done
number=0
while [ $number -lt "$tasks" ]; do
  SLURM_PROCID=$number "$@" &
  number=$((number + 1))
done
wait
