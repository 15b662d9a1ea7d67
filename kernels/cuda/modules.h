// modules.h -- the verbs for code that is compiled at run time, as listed in plugin.cu
#pragma once
#include "kernels/module.h"

namespace mt::cuda {

bool load_module(const CudaImage&, LoadedKernel&, char* why, size_t room);
void unload_module(const LoadedKernel&);
void* module_variable(const LoadedKernel&, const char* name, size_t* bytes);
void write_variable(void* to, const void* from, size_t bytes);
void launch_module(const Launch&);

}  // namespace mt::cuda
