// torch_file.cpp -- files of torch.save: tensors, state dicts, plain values; nothing is executed
#include "engine/io/torch_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "engine/io/convert.h"
#include "engine/io/zip.h"

namespace mt {
namespace {

using Kind = Pickled::Kind;

constexpr char kTorch[] = "torch.";

enum class Call : uint8_t {
  tensor,        // _rebuild_tensor(_v2, _v3)(storage, offset, size, stride, requires_grad, ..)
  typed_tensor,  // .. with the dtype as argument 7
  parameter,     // _rebuild_parameter(tensor, requires_grad, ..)
  of_type,       // _rebuild_from_type_v2(function, type, arguments, state)
  ordered,       // OrderedDict()
  list,          // set([..]), Size((..))
  first,         // device('cpu'): returns its first argument
  encode,        // _codecs.encode(text, 'latin1')
  type           // a name that is never called
};
struct Global {
  const char* name;
  Call call;
};
constexpr Global kGlobals[] = {{"torch._utils._rebuild_tensor_v2", Call::tensor},
                               {"torch._utils._rebuild_tensor", Call::tensor},
                               {"torch._utils._rebuild_tensor_v3", Call::typed_tensor},
                               {"torch._utils._rebuild_parameter", Call::parameter},
                               {"torch._utils._rebuild_parameter_with_state", Call::parameter},
                               {"torch._tensor._rebuild_from_type_v2", Call::of_type},
                               {"collections.OrderedDict", Call::ordered},
                               {"__builtin__.set", Call::list},
                               {"builtins.set", Call::list},
                               {"torch.Size", Call::list},
                               {"torch.device", Call::first},
                               {"_codecs.encode", Call::encode},
                               {"torch.Tensor", Call::type},
                               {"torch.nn.parameter.Parameter", Call::type}};

constexpr int kUntyped = int(std::size(kStoredTypes));
constexpr const char kUntypedName[] = "torch.storage.UntypedStorage";

/// A storage, and a tensor's view of it, before the bytes are read.
struct StorageSpec {
  std::string key;
  int type;       // of kStoredTypes, or kUntyped
  int64_t count;  // of elements, or of bytes if it is untyped
};
struct View {
  size_t storage;
  int type;
  int64_t offset;
  Shape size, stride;
};

/// The functions and types that files may have. An `other` value below kStorages is a tensor, else
/// a storage; a global below kTypeNames is in kGlobals, below kDtypes a storage type, else a dtype.
class TorchCalls : public PickleCalls {
 public:
  static constexpr int64_t kStorages = int64_t(1) << 40, kTypeNames = 1000, kDtypes = 2000;
  explicit TorchCalls(TorchFile& file) : file_(file) {}

  std::vector<StorageSpec> storages;
  std::vector<View> views;  // of file_.tensors
  const StorageSpec* find(const std::string& key) const {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : &storages[at->second];
  }

  Pickled* global(const std::string& name) override {
    for (size_t i = 0; i < std::size(kGlobals); ++i)
      if (name == kGlobals[i].name) return add(Kind::global, int64_t(i));
    const bool on_gpu = name.starts_with("torch.cuda.");  // before PyTorch 1.6
    const std::string storage = on_gpu ? kTorch + name.substr(11) : name;
    for (int i = 0; i < kUntyped; ++i) {
      if (storage == kStoredTypes[i].torch_storage) return add(Kind::global, kTypeNames + i);
      if (name == kStoredTypes[i].torch) return add(Kind::global, kDtypes + i);
    }
    if (name == kUntypedName) return add(Kind::global, kTypeNames + kUntyped);
    if (name.starts_with(kTorch) && name.find('.', 6) == std::string::npos)
      fail("it has '{}', a type that tensors here do not have; nothing was executed",
           printable(name));
    if (name.starts_with("numpy."))
      fail("it has values of NumPy ('{}'); save tensors, torch.as_tensor(x), or numbers, x.item()",
           printable(name));
    fail(
        "it names '{}', which is not an allowed function or type; nothing was executed. Save the "
        "state_dict() of a network",
        printable(name));
  }

  Pickled* call(const Pickled& f, const PickledList& a) override {
    if (f.integer() >= kTypeNames) wrong();
    switch (kGlobals[f.integer()].call) {
      case Call::tensor: return tensor(a, -1);
      case Call::typed_tensor:
        need(a.size() >= 7 && a[6]->is(Kind::global) && a[6]->integer() >= kDtypes);
        return tensor(a, int(a[6]->integer() - kDtypes));
      case Call::parameter: return parameter(a);
      case Call::of_type: {
        need(a.size() == 4 && a[0]->is(Kind::global) && a[2]->is(Kind::tuple) &&
             a[0]->integer() < kTypeNames && kGlobals[a[0]->integer()].call < Call::of_type);
        Pickled* const made = call(*a[0], a[2]->list());
        state(*made, *a[3]);
        return made;
      }
      case Call::ordered: return ordered(a);
      case Call::list: {
        need(a.size() <= 1 && (a.empty() || is_list(*a[0])));
        return file_.values.add(Kind::list, a.empty() ? PickledList() : a[0]->list());
      }
      case Call::first:
        need(!a.empty() && a[0]->is(Kind::text));
        return file_.values.add(Kind::text, a[0]->text());
      case Call::encode: need(!a.empty() && a[0]->is(Kind::text)); return encode(a[0]->text());
      case Call::type: break;
    }
    wrong();
  }

  /// ('storage', type, key, location, count[, view])
  Pickled* persistent(const Pickled& id) override {
    need(id.is(Kind::tuple) && id.list().size() >= 5);
    const PickledList& a = id.list();
    need(a[0]->is(Kind::text) && a[0]->text() == "storage" && a[1]->is(Kind::global) &&
         a[1]->integer() >= kTypeNames && a[1]->integer() < kDtypes && a[2]->is(Kind::text) &&
         a[4]->is(Kind::integer) && a[4]->integer() >= 0);
    if (a.size() > 5 && !a[5]->is(Kind::none))
      fail("it holds views of storages, as PyTorch before 0.4 wrote them");
    const StorageSpec spec{a[2]->text(), int(a[1]->integer() - kTypeNames), a[4]->integer()};
    const auto [at, fresh] = index_.try_emplace(spec.key, storages.size());
    if (fresh) storages.push_back(spec);
    const StorageSpec& known = storages[at->second];
    if (known.type != spec.type || known.count != spec.count)
      fail("storage '{}' has two types or sizes", printable(spec.key));
    return add(Kind::other, kStorages + int64_t(at->second));
  }

  /// Attributes are ignored, except the one that says that a tensor is a buffer.
  void state(Pickled& object, const Pickled& state) override {
    if (object.is(Kind::dict)) return;
    need(is_tensor(object));
    if (!state.is(Kind::dict)) return;
    const PickledList& list = state.list();
    for (size_t i = 0; i + 1 < list.size(); i += 2)
      if (list[i]->is(Kind::text) && list[i]->text() == "_is_buffer" &&
          list[i + 1]->is(Kind::boolean) && list[i + 1]->integer())
        file_.tensors[object.integer()].is_buffer = true;
  }

 private:
  [[noreturn]] static void wrong() {
    fail("its pickle calls a function in a way that PyTorch does not");
  }
  static void need(bool right) {
    if (!right) wrong();
  }
  static bool is_list(const Pickled& p) { return p.is(Kind::list) || p.is(Kind::tuple); }
  static bool is_tensor(const Pickled& p) { return p.is(Kind::other) && p.integer() < kStorages; }
  Pickled* add(Kind kind, int64_t index) { return file_.values.add(kind, index); }

  Shape numbers(const Pickled& list) const {
    need(is_list(list));
    Shape shape;
    for (const Pickled* n : list.list()) {
      need(n->is(Kind::integer) && n->integer() >= 0);
      shape.push(n->integer());
    }
    return shape;
  }

  /// Whether the last element is among the first `have` ones; sizes and strides are from the file.
  static bool fits(const View& v, int64_t have) {
    int64_t last = v.offset, step;
    for (int d = 0; d < v.size.size(); ++d)
      if (__builtin_mul_overflow(v.size[d] - 1, v.stride[d], &step) ||
          __builtin_add_overflow(last, step, &last))
        return false;
    return last < have;
  }

  Pickled* tensor(const PickledList& a, int type) {
    need(a.size() >= 4 && a[0]->is(Kind::other) && a[0]->integer() >= kStorages &&
         a[1]->is(Kind::integer) && a[1]->integer() >= 0);
    View v{size_t(a[0]->integer() - kStorages), type, a[1]->integer(), numbers(*a[2]),
           numbers(*a[3])};
    const StorageSpec& storage = storages[v.storage];
    need(v.size.size() == v.stride.size() && (type >= 0) == (storage.type == kUntyped));
    if (type < 0) v.type = storage.type;
    const StoredType& t = kStoredTypes[v.type];
    const int64_t have = type < 0 ? storage.count : storage.count / t.size();
    if (checked_count("tensor", v.size) > 0 && !fits(v, have))
      fail("a tensor {} reaches beyond its storage of {} elements", to_string(v.size), have);
    views.push_back(v);
    TorchTensor& made = file_.tensors.emplace_back();
    made.requires_grad = a.size() > 4 && a[4]->is(Kind::boolean) && a[4]->integer();
    return add(Kind::other, int64_t(file_.tensors.size()) - 1);
  }

  Pickled* parameter(const PickledList& a) {
    need(a.size() >= 2 && is_tensor(*a[0]) && a[1]->is(Kind::boolean));
    TorchTensor& t = file_.tensors[a[0]->integer()];
    t.is_parameter = true, t.requires_grad = a[1]->integer();
    return add(Kind::other, a[0]->integer());
  }

  /// OrderedDict([[key, value], ..])
  Pickled* ordered(const PickledList& a) {
    PickledList entries;
    need(a.size() <= 1 && (a.empty() || is_list(*a[0])));
    if (!a.empty())
      for (const Pickled* pair : a[0]->list()) {
        need(is_list(*pair) && pair->list().size() == 2);
        entries.insert(entries.end(), pair->list().begin(), pair->list().end());
      }
    return file_.values.add(Kind::dict, std::move(entries));
  }

  /// The bytes of a text whose characters are below 256.
  Pickled* encode(const std::string& text) {
    std::string bytes;
    for (size_t i = 0; i < text.size(); ++i) {
      const uint8_t c = uint8_t(text[i]);
      if (c < 0x80) {
        bytes += char(c);
        continue;
      }
      need((c & 0xfe) == 0xc2 && i + 1 < text.size() && (uint8_t(text[i + 1]) & 0xc0) == 0x80);
      bytes += char((c & 3) << 6 | (uint8_t(text[++i]) & 0x3f));
    }
    return file_.values.add(Kind::text, std::move(bytes));
  }

  TorchFile& file_;
  std::unordered_map<std::string, size_t> index_;
};

/// Makes the tensors views of their storages, whose bytes `open(storage, size)` returns.
void resolve(TorchFile& file, const TorchCalls& calls, bool swapped, const auto& open) {
  std::map<std::pair<size_t, int>, Tensor> flat;
  for (size_t i = 0; i < calls.views.size(); ++i) {
    const View& v = calls.views[i];
    Tensor& storage = flat[{v.storage, v.type}];
    if (!storage.defined()) {
      const StorageSpec& s = calls.storages[v.storage];
      const StoredType& t = kStoredTypes[v.type];
      const int64_t bytes = t.size();
      const int64_t count = s.type == kUntyped ? s.count / bytes : s.count;
      if (uint64_t(count) > uint64_t(INT64_MAX / bytes)) fail("storage '{}' is too large", s.key);
      Bytes from = open(calls.storages[v.storage], uint64_t(count * bytes));
      storage = empty({count}, t.dtype);
      read_stored(from, t, storage, swapped);
    }
    file.tensors[i].tensor = view_of(storage, v.size, v.stride, v.offset).detach();
  }
}

constexpr size_t kLongestPickle = 64 << 20;

TorchFile parse_zip(const ZipReader& zip) {
  constexpr std::string_view kRoot = "data.pkl";
  const auto& entries = zip.entries();
  std::unordered_map<std::string, size_t> index;
  size_t root = entries.size();
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string& name = entries[i].name;
    index.emplace(name, i);
    if (name == kRoot || name.ends_with("/data.pkl")) root = std::min(root, i);
  }
  if (root == entries.size()) fail("no entry of the archive is called data.pkl");
  const std::string& name = entries[root].name;
  const std::string folder = name.substr(0, name.size() - kRoot.size());
  if (index.count(folder + "constants.pkl"))
    fail("it is a program of TorchScript; save its state_dict()");
  bool swapped = false;
  if (const auto at = index.find(folder + "byteorder"); at != index.end())
    swapped = zip.text(at->second, 16) == "big";
  TorchFile file;
  TorchCalls calls(file);
  const std::string text = zip.text(root, kLongestPickle);
  const uint8_t* at = reinterpret_cast<const uint8_t*>(text.data());
  file.root = parse_pickle(at, at + text.size(), file.values, calls);
  resolve(file, calls, swapped, [&](const StorageSpec& storage, uint64_t bytes) {
    const auto entry = index.find(folder + "data/" + storage.key);
    if (entry == index.end()) fail("its storage '{}' is missing", printable(storage.key));
    const uint64_t have = entries[entry->second].size;
    if (have < bytes || (storage.type != kUntyped && have != bytes))
      fail("its storage '{}' has {} bytes, {} are needed", printable(storage.key), have, bytes);
    return zip.open(entry->second);
  });
  return file;
}

struct Memory : ByteSource {
  Memory(const uint8_t* bytes, uint64_t size) : at(bytes), left(size) {}
  size_t read(uint8_t* out, size_t n) override {
    n = std::min<uint64_t>(n, left);
    std::memcpy(out, at, n);
    at += n, left -= n;
    return n;
  }
  uint64_t at_most() const override { return left; }
  const uint8_t* at;
  uint64_t left;
};

/// The format before version 1.6: three pickles of metadata, the value, the keys of the storages,
/// and for each storage its size and its bytes.
TorchFile parse_stream(const uint8_t* at, const uint8_t* end) {
  TorchFile file;
  TorchCalls calls(file);
  const auto next = [&] { return parse_pickle(at, end, file.values, calls); };
  const Pickled* const magic = next();
  if (!magic->is(Kind::text) ||
      magic->text() != "119547037146038801333356")  // 0x1950a86a20f9469cfc6c
    fail("it is not a file of torch.save (bad magic number)");
  const Pickled* const version = next();
  if (!version->is(Kind::integer) || version->integer() != 1001) fail("its version is not 1001");
  next();
  file.root = next();
  const Pickled* const keys = next();
  if (!keys->is(Kind::list)) fail("it is malformed: its table of storages is not a list");
  std::unordered_map<std::string, std::pair<const uint8_t*, uint64_t>> places;
  for (const Pickled* key : keys->list()) {
    const StorageSpec* const spec = key->is(Kind::text) ? calls.find(key->text()) : nullptr;
    if (!spec) fail("it is malformed: its table of storages names an unknown one");
    const uint64_t item = spec->type == kUntyped ? 1 : uint64_t(kStoredTypes[spec->type].size());
    if (end - at < 8) fail("it ends inside its storages");
    const uint64_t count = little_endian(at, 8);
    at += 8;
    if (count != uint64_t(spec->count)) fail("storage '{}' has two sizes", printable(spec->key));
    if (count > uint64_t(end - at) / item) fail("it ends inside its storages");
    places[spec->key] = {at, count * item};
    at += count * item;
  }
  resolve(file, calls, false, [&](const StorageSpec& storage, uint64_t bytes) {
    const auto place = places.find(storage.key);
    if (place == places.end() || place->second.second < bytes)
      fail("its storage '{}' is missing", printable(storage.key));
    return Bytes(std::make_unique<Memory>(place->second.first, bytes));
  });
  return file;
}

}  // namespace

std::string torch_name(const Pickled& global) {
  const int64_t i = global.integer();
  if (i < TorchCalls::kTypeNames) return kGlobals[i].name;
  if (i >= TorchCalls::kDtypes)
    return kStoredTypes[i - TorchCalls::kDtypes].torch + std::strlen(kTorch);
  return i - TorchCalls::kTypeNames == kUntyped
             ? kUntypedName
             : kStoredTypes[i - TorchCalls::kTypeNames].torch_storage;
}

TorchFile parse_torch(RegularFile file) {
  RegularFile from = unpacked(std::move(file));
  char head[2] = {};
  if (pread(from.file.fd(), head, 2, 0) == 2 && std::memcmp(head, "PK", 2) == 0)
    return parse_zip(ZipReader(std::move(from)));
  const std::string text = Bytes(from).rest();
  const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  return parse_stream(bytes, bytes + text.size());
}

}  // namespace mt
