// files.cpp -- files of tensors for bindings/lua/data and bindings/lua/io
#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"
#include "engine/core/device.h"
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
    {"write_safetensors(operation, path, names, tensors, metadata)",
     "Writes tensors under their names; metadata is a list of keys and values in turn.",
     [](Args& a) {
       TensorFile file;
       const std::vector<Tensor> tensors = a.tensors(4);
       for (size_t i = 0; i < tensors.size(); ++i)
         file.tensors.push_back({string_of(a.L, 3, int(i + 1)), tensors[i]});
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
