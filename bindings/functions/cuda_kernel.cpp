// cuda_kernel.cpp -- C functions used by cuda/kernel.lua: kernels in CUDA C as Lua values; mt.cdiv
#include "engine/gpu/cuda_kernel.h"

#include <memory>

#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

struct LuaCudaKernel : CudaKernel {
  using CudaKernel::CudaKernel;
  static constexpr char kShown[] = "a kernel of mt.cuda.kernel";
};
CudaKernel& kernel_at(const Args& a) { return Userdata<LuaCudaKernel>::at(a, 1); }

int compile(Args& a) {
  CudaSource s;
  s.text = a.text(1), s.name = a.text(2), s.options = a.strings(5), s.defines = a.text(6);
  a.table(4);
  for (int k = 1, n = int(lua_objlen(a.L, 4)); k < n; k += 3) {  // first, place, line
    for (int i = 0; i < 3; ++i) lua_rawgeti(a.L, 4, k + i);
    s.origins.push_back(
        {int(lua_tointeger(a.L, -3)), lua_tostring(a.L, -2), int(lua_tointeger(a.L, -1))});
    lua_pop(a.L, 3);
  }
  Userdata<LuaCudaKernel>::push(a.L, std::make_unique<LuaCudaKernel>(std::move(s), a.text(3)));
  return 1;
}

int properties(Args& a) {
  const CudaKernel& k = kernel_at(a);
  lua_newtable(a.L);
  a.set("name", k.name()), a.set("signature", k.text()), a.set("arch", k.arch());
  a.set("cached", k.code().cached), a.set("milliseconds", k.code().milliseconds);
  a.set("log", k.code().log);
  if (const LoadedKernel* loaded = k.loaded()) {
    a.set("max_threads", loaded->max_threads), a.set("registers", loaded->registers);
    a.set("shared", loaded->shared), a.set("local_memory", loaded->local);
  }
  push_list(a.L, k.parameters(), [&](const CudaParameter& p) {
    lua_createtable(a.L, 0, 3);
    a.set("name", p.name), a.set("type", p.type.text);
    if (!p.type.element.empty()) a.set("dtype", p.type.element);
  });
  lua_setfield(a.L, -2, "parameters");
  return 1;
}

int launch(Args& a) {
  CudaKernel& k = kernel_at(a);
  LaunchSize size = launch_size(a);
  size.shared = a.integer(8);
  k.launch(size, launch_arguments(a, 9), [&a](int i) { return describe(a.L, i + 9); });
  return 0;
}

const Entry kCudaKernelParts[] = {
    {"cuda_compile(source, name, device, origins, options, defines)", "A kernel.", compile},
    {"cuda_about(kernel)", "The properties of a kernel.", properties},
    {"cuda_launch(kernel, gx, gy, gz, bx, by, bz, shared, ..)", "Checks and launches.", launch},
    {"cuda_rank(kernel, i, rank)", "How many dimensions a tensor for a parameter has.",
     bind<[](LuaCudaKernel& k, int64_t i, int64_t rank) { k.set_rank(int(i) - 1, int(rank)); }>},
    {"cuda_constant(kernel, name, value)", "Fills a variable of the source.",
     bind<[](LuaCudaKernel& k, const std::string& name, const Tensor& value) {
       k.set_constant(name, value);
     }>},
};

const Entry kCudaKernelFunctions[] = {
    {"cdiv(a, b)",
     "a / b rounded up, for integers a >= 0 and b >= 1: how many blocks of b threads cover a "
     "elements.",
     bind<[](int64_t n, int64_t each) {
       if (n < 0 || each < 1) fail("cdiv: {} / {}; a must be 0 or more, b 1 or more", n, each);
       return n / each + (n % each != 0);
     }>},
};

}  // namespace

void add_cuda_kernel(lua_State* L) { add_internal(L, kCudaKernelParts); }

void register_cuda_kernel(Registry& c) { c.functions(kCudaKernelFunctions); }

}  // namespace mt::lua
