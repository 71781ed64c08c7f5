// The body of view_of_clang() and view_of_nvcc(): each compiler has its own.
#pragma once

#include "device.cuh"

static View view_of_this_compiler() {
  View view;
  auto registers = [](auto *kernel) {
    cudaFuncAttributes attributes;
    check_cuda(cudaFuncGetAttributes(&attributes, kernel), "read a kernel's attributes");
    return attributes.numRegs;
  };
  view.registers[0] = registers(swing);
  view.registers[1] = registers(energies);
  view.registers[2] = registers(fastest);
  view.registers[3] = registers(slow_down);
  check_cuda(cudaMemcpyFromSymbol(&view.swings, swings, sizeof view.swings), "read swings");
  check_cuda(cudaMemcpyFromSymbol(&view.evaluations, evaluations, sizeof view.evaluations), "read evaluations");
  check_cuda(cudaMemcpyFromSymbol(&view.density, air, sizeof view.density, offsetof(Air, density)), "read air");
  return view;
}
