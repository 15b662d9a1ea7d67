// files.cpp -- files of tensors for bindings/lua/data and bindings/lua/io
#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/io/npy.h"
#include "engine/io/safetensors.h"

namespace mt::lua {
namespace {

Tensor to_host(const Tensor& x) {
  const NoGrad off;
  return contiguous(to(x, cpu_device()));
}

std::string string_of(lua_State* L, int table, int i) {
  lua_rawgeti(L, table, i);
  size_t n = 0;
  const char* s = lua_tolstring(L, -1, &n);
  std::string text(s ? s : "", n);
  lua_pop(L, 1);
  return text;
}

/// Pushes a table of tensors by name.
void push_named(Args& a, const std::vector<NamedTensor>& list) {
  lua_createtable(a.L, 0, int(list.size()));
  for (const NamedTensor& t : list) {
    a.push(t.name);
    a.push(t.tensor);
    lua_rawset(a.L, -3);
  }
}

/// A list of names at argument i and a list of tensors at the next.
std::vector<NamedTensor> named_tensors(Args& a, int i) {
  std::vector<NamedTensor> list;
  for (const Tensor& x : a.tensors(i + 1))
    list.push_back({string_of(a.L, i, int(list.size() + 1)), x});
  return list;
}

/// The same for tensors of the same elements in the same order, and different for others that live.
std::string elements_key(const Tensor& x) {
  return fmt::format("{} {} {} {} {}", static_cast<const void*>(x.impl()->storage), int(x.dtype()),
                     x.offset(), to_string(x.shape()),
                     x.is_contiguous() ? "" : to_string(x.strides()));
}

const Entry kFiles[] = {
    {"elements_key(x)", "The same for tensors of the same elements in the same order.",
     bind<elements_key>},
    {"read_safetensors(operation, path)", "Tensors by name, and the metadata by name.",
     [](Args& a) {
       const TensorFile file = read_safetensors(a.text(1).c_str(), a.text(2));
       push_named(a, file.tensors);
       lua_createtable(a.L, 0, int(file.metadata.size()));
       for (const auto& [key, value] : file.metadata) {
         a.push(key), a.push(value);
         lua_rawset(a.L, -3);
       }
       return 2;
     }},
    {"read_npy(path)", "The tensor in an npy file.",
     bind<[](const std::string& path) { return to_host(read_npy("npy", path)); }>},
    {"read_npz(path)", "Tensors by name.",
     [](Args& a) {
       std::vector<NamedTensor> list = read_npz("npz", a.text(1));
       for (NamedTensor& t : list) t.tensor = to_host(t.tensor);
       push_named(a, list);
       return 1;
     }},
    {"write_npy(path, x)", "Writes an npy file.",
     bind<[](const std::string& path, const Tensor& x) {
       write_npy("save_npy", path, to_host(x));
     }>},
    {"write_npz(path, names, tensors)", "Writes an npz file.",
     [](Args& a) {
       write_npz("save_npz", a.text(1), named_tensors(a, 2), to_host);
       return 0;
     }},
    {"write_safetensors(operation, path, names, tensors, metadata)",
     "Writes tensors under their names; metadata is a list of keys and values in turn.",
     [](Args& a) {
       TensorFile file{named_tensors(a, 3), {}};
       for (int i = 1, n = int(lua_objlen(a.L, 5)); i < n; i += 2)
         file.metadata.emplace_back(string_of(a.L, 5, i), string_of(a.L, 5, i + 1));
       write_safetensors(a.text(1).c_str(), a.text(2), file, to_host);
       return 0;
     }},
};

}  // namespace

void add_files(lua_State* L) {
  for (const Entry& e : kFiles) e.internal = true;
  add(L, kFiles);
}

}  // namespace mt::lua
