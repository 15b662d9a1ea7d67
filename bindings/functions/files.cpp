// files.cpp -- file functions for bindings/lua/data and bindings/lua/io; JSON
#include <cmath>
#include <filesystem>

#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"
#include "engine/io/json.h"
#include "engine/io/tensor_files.h"
#include "engine/io/torch_file.h"
#include "engine/text/unicode.h"

namespace mt::lua {
namespace {

Tensor to_host(const Tensor& x) {
  const NoGrad off;
  return contiguous(to(x, cpu_device()));
}

/// Pushes a table of tensors or strings with their names as keys.
void push_named(Args& a, const auto& list) {
  lua_createtable(a.L, 0, int(list.size()));
  for (const auto& [key, value] : list) a.push(key, value), lua_rawset(a.L, -3);
}

/// Pushes a table of the members that were left out with the reasons, or nil; prints a warning.
void push_left_out(Args& a, const char* operation, const std::string& path,
                   const TensorFile& file) {
  if (file.left_out.empty()) return lua_pushnil(a.L);
  constexpr size_t kShown = 4;
  const size_t n = file.left_out.size();
  std::string text;
  for (size_t i = 0; i < std::min(n, kShown); ++i) {
    const auto& [name, why] = file.left_out[i];
    text += fmt::format("{}'{}' ({})", i ? ", " : "", printable(name), why);
  }
  if (n > kShown) text += fmt::format(" and {} more", n - kShown);
  fmt::print(stderr, "{}: '{}' is read without {}\n", operation, path, text);
  push_named(a, file.left_out);
}

/// A list of names at argument i and a list of tensors at the next.
std::vector<NamedTensor> named_tensors(Args& a, int i) {
  std::vector<NamedTensor> list;
  const std::vector<std::string> names = a.strings(i);
  for (const Tensor& x : a.tensors(i + 1)) list.push_back({names.at(list.size()), x});
  return list;
}

/// A key that is equal for tensors of the same elements in the same order, while they exist.
std::string elements_key(const Tensor& x) {
  return fmt::format("{} {} {} {} {}", static_cast<const void*>(x.impl()->storage), int(x.dtype()),
                     x.offset(), to_string(x.shape()),
                     x.is_contiguous() ? "" : to_string(x.strides()));
}

/// Whether a zip archive contains NumPy arrays; false for a corrupt one.
bool is_npz(const std::string& operation, const std::string& path) {
  RegularFile file = open_regular(operation.c_str(), path);
  try {
    const ZipReader zip(std::move(file));
    return !zip.entries().empty() && zip.entries()[0].name.ends_with(".npy");
  } catch (const Error&) { return false; }
}

std::string file_kind(const std::string& operation, const std::string& path) {
  Bytes bytes(open_regular(operation.c_str(), path));
  char head[9] = {};
  const std::string_view text(head, bytes.read(head, sizeof head));
  // The size of a safetensors header may equal any magic number below; the header begins with '{'.
  if (head[8] == '{') return "safetensors";
  return text.starts_with("PK")          ? "zip"
         : text.starts_with("\x80")      ? "torch"
         : text.starts_with("\x93NUMPY") ? "npy"
                                         : "other";
}

/// Pushes the values of a torch.save file; a value that occurs twice is one table or tensor.
class TorchPusher {
 public:
  TorchPusher(const Args& a, const TorchFile& file) : a_(a), L_(a.L), file_(file) {
    lua_newtable(L_);
    lua_newtable(L_);
    known_ = lua_gettop(L_), roles_ = known_ - 1;
  }
  int roles() const { return roles_; }
  void push(const Pickled& p) {
    using Kind = Pickled::Kind;
    switch (p.kind) {
      case Kind::none: lua_pushnil(L_); break;
      case Kind::boolean: a_.push(p.integer() != 0); break;
      case Kind::integer: push_whole(a_.L, p.integer()); break;
      case Kind::number: a_.push(p.number()); break;
      case Kind::text: a_.push(p.text()); break;
      case Kind::global: a_.push(torch_name(p)); break;
      default: shared(p);
    }
  }

 private:
  void shared(const Pickled& p) {
    const bool tensor = p.is(Pickled::Kind::other);
    if (tensor && size_t(p.integer()) >= file_.tensors.size())
      fail("load: the file holds a storage without a tensor");
    // A parameter is another object than its tensor.
    const void* const key = tensor ? static_cast<const void*>(&file_.tensors[p.integer()])
                                   : static_cast<const void*>(&p);
    lua_pushlightuserdata(L_, const_cast<void*>(key));
    lua_rawget(L_, known_);
    if (!lua_isnil(L_, -1)) return;
    lua_pop(L_, 1);
    if (++depth_ > 1000) fail("load: lists and dictionaries are nested deeper than 1000");
    luaL_checkstack(L_, 6, "load");
    if (tensor) push_tensor(file_.tensors[p.integer()]);
    else lua_newtable(L_);
    lua_pushlightuserdata(L_, const_cast<void*>(key));
    lua_pushvalue(L_, -2);
    lua_rawset(L_, known_);
    if (p.is(Pickled::Kind::dict)) entries(p.list());
    else if (!tensor) items(p.list());
    --depth_;
  }
  void push_tensor(const TorchTensor& t) {
    if (t.requires_grad && is_float(t.tensor.dtype())) t.tensor.requires_grad_();
    a_.push(t.tensor);
    if (!t.is_parameter && !t.is_buffer) return;
    lua_pushvalue(L_, -1);
    a_.push(t.is_parameter ? "parameter" : "buffer");
    lua_rawset(L_, roles_);
  }
  void items(const PickledList& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      push(*list[i]);
      lua_rawseti(L_, -2, int(i + 1));
    }
  }
  void entries(const PickledList& list) {
    for (size_t i = 0; i + 1 < list.size(); i += 2) {
      push(*list[i]);
      const int kind = lua_type(L_, -1);
      if ((kind != LUA_TSTRING && kind != LUA_TNUMBER && kind != LUA_TBOOLEAN) ||
          (kind == LUA_TNUMBER && std::isnan(lua_tonumber(L_, -1))))
        fail("load: a dictionary has {} as a key; text, numbers and booleans can be read",
             describe(L_, -1));
      push(*list[i + 1]);
      lua_rawset(L_, -3);
    }
  }
  const Args& a_;
  lua_State* const L_;
  const TorchFile& file_;
  int known_, roles_, depth_ = 0;
};

int read_torch_body(Args& a) {
  const TorchFile file = read_by<RegularFile>(parse_torch, a.text(1).c_str(), a.text(2),
                                              " cannot be read as a file of torch.save");
  TorchPusher pusher(a, file);
  pusher.push(*file.root);
  lua_pushvalue(a.L, pusher.roles());
  return 2;
}

void make_folders(const std::string& operation, const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(path, ec);
  if (ec) fail("{}: cannot make the folder '{}': {}", operation, path, ec.message());
}

/// Pushes a value; null is the value at stack index `null`; lists get the metatable `list_meta`.
void push_json(lua_State* L, const Json& json, int null, int list_meta) {
  luaL_checkstack(L, 4, "JSON");
  if (json.as<std::nullptr_t>()) lua_pushvalue(L, null);
  else if (const bool* b = json.as<bool>()) lua_pushboolean(L, *b);
  else if (const int64_t* n = json.as<int64_t>()) push_whole(L, *n);
  else if (const double* x = json.as<double>()) lua_pushnumber(L, *x);
  else if (const std::string* s = json.as<std::string>()) push_text(L, *s);
  else if (const JsonList* list = json.as<JsonList>()) {
    push_list(L, *list, [=](const Json& item) { push_json(L, item, null, list_meta); });
    if (lua_istable(L, list_meta)) {
      lua_pushvalue(L, list_meta);
      lua_setmetatable(L, -2);
    }
  } else if (const JsonObject* object = json.as<JsonObject>()) {
    lua_createtable(L, 0, int(object->size()));
    for (const JsonMember& m : *object) {
      push_text(L, m.key);
      push_json(L, m.value, null, list_meta);
      lua_rawset(L, -3);
    }
  }
}

const Entry kFiles[] = {
    {"parse_json(text, ..)",
     "(text, null, list_meta): the value of a JSON text; null becomes `null`, lists get the metatable list_meta.",
     [](Args& a) {
       lua_settop(a.L, 3);
       push_json(a.L, parse_json(a.characters(1)), 2, 3);
       return 1;
     }},
    {"json_quoted(text)", "A UTF-8 string as JSON; nil where it is not UTF-8.",
     bind<[](std::string_view text) {
       return is_utf8(text) ? std::optional(json_quoted(text)) : std::nullopt;
     }>},
    {"json_number(x)", "A finite number as JSON, which is read as the same.", bind<json_number>},
    {"make_folders(operation, path)", "Creates a folder and its parents.", bind<make_folders>},
    {"read_torch(operation, path)",
     "The value of a file of torch.save, and a table from its parameters and buffers to 'parameter' or 'buffer'.",
     read_torch_body},
    {"file_kind(operation, path)",
     "The kind of an unpacked file: 'safetensors', 'torch', 'zip', 'npy' or 'other'.",
     bind<file_kind>},
    {"is_npz(operation, path)", "Whether a zip archive holds arrays of NumPy.", bind<is_npz>},
    {"elements_key(x)", "A key that is equal for tensors of the same elements in the same order.",
     bind<elements_key>},
    {"read_safetensors(operation, path)",
     "Tensors by name, the metadata by name, and why members were left out, by name, or nil.",
     [](Args& a) {
       const TensorFile file = read_by(parse_safetensors, a.text(1).c_str(), a.text(2),
                                       " is not a valid safetensors file");
       push_named(a, file.tensors);
       push_named(a, file.metadata);
       push_left_out(a, a.text(1).c_str(), a.text(2), file);
       return 3;
     }},
    {"read_npy(path)", "The tensor in an npy file.", bind<[](const std::string& path) {
       return to_host(read_by(parse_npy, "npy", path, " is not a valid npy file"));
     }>},
    {"read_npz(path)", "Tensors by name, and why members were left out, by name, or nil.",
     [](Args& a) {
       TensorFile file =
           read_by<ZipReader>(parse_npz, "npz", a.text(1), " is not a valid npz file");
       for (NamedTensor& t : file.tensors) t.tensor = to_host(t.tensor);
       push_named(a, file.tensors);
       push_left_out(a, "npz", a.text(1), file);
       return 2;
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
       TensorFile file{named_tensors(a, 3), {}, {}};
       const std::vector<std::string> metadata = a.strings(5);
       for (size_t i = 0; i + 1 < metadata.size(); i += 2)
         file.metadata.emplace_back(metadata[i], metadata[i + 1]);
       write_safetensors(a.text(1).c_str(), a.text(2), file, to_host);
       return 0;
     }},
};

}  // namespace

void add_files(lua_State* L) { add_internal(L, kFiles); }

}  // namespace mt::lua
