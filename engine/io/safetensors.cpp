// safetensors.cpp -- the safetensors format: a JSON header, then the data of the tensors
#include "engine/io/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/io/convert.h"
#include "engine/io/json.h"

namespace mt {
namespace {

constexpr uint64_t kLongestHeader = 100'000'000;

/// The header's entry of a tensor. Offsets count from the end of the header.
struct TensorEntry {
  const std::string *name, *dtype;
  const StoredType* type;  // null: no tensor can hold it
  Shape shape;
  uint64_t begin, end;
};

int64_t whole(const Json& json, const std::string& name, const char* what) {
  const int64_t* n = json.as<int64_t>();
  if (!n || *n < 0) fail("the {} of tensor '{}' are not whole numbers", what, printable(name));
  return *n;
}

TensorEntry place_of(const JsonMember& member) {
  const std::string& name = member.key;
  const JsonObject* object = member.value.as<JsonObject>();
  if (!object) fail("the header's entry of tensor '{}' is not an object", printable(name));
  TensorEntry place{&name, nullptr, nullptr, {}, 0, 0};
  bool has_shape = false, has_offsets = false;
  for (const JsonMember& m : *object) {
    const JsonList* list = m.value.as<JsonList>();
    if (m.key == "dtype" && m.value.as<std::string>()) {
      place.dtype = m.value.as<std::string>();
      place.type = find_stored([&](const StoredType& t) { return t.safetensors == *place.dtype; });
    } else if (m.key == "shape" && list) {
      if (list->size() > kMaxDims)
        fail("tensor '{}' has {} dimensions, at most {} are possible", printable(name),
             list->size(), kMaxDims);
      for (const Json& n : *list) place.shape.push(whole(n, name, "sizes"));
      has_shape = true;
    } else if (m.key == "data_offsets" && list && list->size() == 2) {
      place.begin = uint64_t(whole((*list)[0], name, "offsets"));
      place.end = uint64_t(whole((*list)[1], name, "offsets"));
      has_offsets = true;
    } else if (m.key == "dtype" || m.key == "shape" || m.key == "data_offsets")
      fail("tensor '{}' has an invalid entry '{}'", printable(name), printable(m.key));
  }
  if (!place.dtype || !has_shape || !has_offsets)
    fail("tensor '{}' needs dtype, shape and data_offsets", printable(name));
  return place;
}

/// The entries in the order of the data, which must not have gaps or overlaps.
std::vector<TensorEntry> places_of(const JsonObject& header, TensorFile& file) {
  std::vector<TensorEntry> places;
  for (const JsonMember& member : header) {
    if (member.key != "__metadata__") {
      places.push_back(place_of(member));
      continue;
    }
    const JsonObject* object = member.value.as<JsonObject>();
    if (!object) fail("__metadata__ is not an object");
    for (const JsonMember& m : *object) {
      const std::string* text = m.value.as<std::string>();
      if (!text) fail("the metadata '{}' is not a string", printable(m.key));
      file.metadata.emplace_back(m.key, *text);
    }
  }
  std::ranges::stable_sort(places, [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t at = 0;
  for (const TensorEntry& p : places) {
    const std::string name = fmt::format("tensor '{}'", printable(*p.name));
    const uint64_t count = checked_count(name.c_str(), p.shape);
    if (p.begin != at || p.end < p.begin)
      fail("{} lies at {}..{}, it should begin at {}", name, p.begin, p.end, at);
    if (p.type && p.end - p.begin != count * uint64_t(p.type->size()))
      fail("{} has {} bytes, {} of {} need {}", name, p.end - p.begin, to_string(p.shape), *p.dtype,
           count * uint64_t(p.type->size()));
    at = p.end;
  }
  return places;
}

std::string read_header(Bytes& bytes) {
  uint8_t size[8];
  if (const size_t n = bytes.read(size, 8); n != 8)
    fail("it has {} bytes, the size of the header needs 8", n);
  const uint64_t n = little_endian(size, 8);
  if (n > kLongestHeader)
    fail("its first 8 bytes are not the size of a header, at most {}", kLongestHeader);
  if (n > bytes.at_most()) fail("its header has {} bytes, the file has fewer", n);
  std::string text(n, '\0');
  bytes.need(text.data(), text.size(), "its header");
  if (text.empty() || text[0] != '{') fail("its header does not begin with '{{'");
  return text;
}

void skip(Bytes& bytes, uint64_t n) {
  uint8_t piece[8192];
  for (uint64_t some; n > 0; n -= some) {
    some = std::min<uint64_t>(n, sizeof piece);
    bytes.need(piece, some, "its values");
  }
}

Tensor read_tensor(Bytes& bytes, const TensorEntry& p) {
  if (!p.type) {
    skip(bytes, p.end - p.begin);
    throw CannotHold(fmt::format("it has the dtype {}, which tensors here do not have",
                                 printable(*p.dtype, 20)));
  }
  const Tensor x = empty(p.shape, p.type->dtype);
  read_stored(bytes, *p.type, x);
  return x;
}

}  // namespace

TensorFile parse_safetensors(Bytes&& bytes) {
  TensorFile file;
  const std::string text = read_header(bytes);
  Json header;
  try {
    header = parse_json(text);
  } catch (const Error& e) { fail("its header: {}", e.what()); }
  const std::vector<TensorEntry> places = places_of(*header.as<JsonObject>(), file);
  const uint64_t all = places.empty() ? 0 : places.back().end;
  if (all > bytes.at_most() || (!bytes.packed() && all < bytes.at_most()))
    fail("its tensors need {} bytes, {} follow the header", all, bytes.at_most());
  for (const TensorEntry& p : places) {
    try {
      file.tensors.push_back({*p.name, read_tensor(bytes, p)});
    } catch (const CannotHold& e) {
      file.left_out.emplace_back(*p.name, e.what());
    } catch (const Error& e) { fail("tensor '{}': {}", printable(*p.name), e.what()); }
  }
  check_some_held(file);
  if (!bytes.ended()) fail("bytes follow its {} bytes of tensors", all);
  return file;
}

void check_some_held(const TensorFile& file) {
  if (!file.tensors.empty() || file.left_out.empty()) return;
  const auto& [name, why] = file.left_out[0];
  fail("tensor '{}': {}", printable(name), why);
}

const Tensor& TensorFile::at(std::string_view name) const {
  for (const auto& [left, why] : left_out)
    if (left == name) fail("tensor '{}': {}", name, why);
  std::string names;
  for (const NamedTensor& t : tensors) {
    if (t.name == name) return t.tensor;
    names += (names.empty() ? "" : ", ") + t.name;
  }
  if (names.size() > 200) names.replace(200, names.npos, "..");
  fail("no tensor '{}' in the file; it has {}", name, names.empty() ? "none" : names);
}

void write_safetensors(const char* operation, const std::string& path, const TensorFile& file,
                       Tensor (*to_host)(const Tensor&)) {
  std::set<std::string_view> names{"__metadata__"};
  for (const NamedTensor& t : file.tensors)
    if (!names.insert(t.name).second)
      fail("{}: '{}' is the name of two tensors, or of the format's metadata", operation,
           printable(t.name));
  std::vector<const NamedTensor*> order;  // the widest first, for alignment
  for (const NamedTensor& t : file.tensors) order.push_back(&t);
  std::ranges::stable_sort(order, [](auto* a, auto* b) {
    return item_size(a->tensor.dtype()) > item_size(b->tensor.dtype());
  });
  std::string text = "{";
  if (!file.metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : file.metadata)
      text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", json_quoted(key),
                          json_quoted(value));
    text += order.empty() ? "}" : "},";
  }
  int64_t at = 0;
  for (const NamedTensor* t : order) {
    const Shape shape = t->tensor.shape();
    const int64_t end = at + t->tensor.numel() * item_size(t->tensor.dtype());
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        t == order[0] ? "" : ",", json_quoted(t->name),
                        stored_by(t->tensor.dtype()).safetensors, fmt::join(shape, ","), at, end);
    at = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kLongestHeader)
    fail(
        "{}: the names and plain values take {} bytes as text, at most {} are possible; put long lists "
        "of numbers into tensors",
        operation, text.size(), kLongestHeader);
  const uint64_t size = text.size();
  FileWriter out(operation, path);
  out.write({reinterpret_cast<const char*>(&size), 8});
  out.write(text);
  for (const NamedTensor* t : order) {
    const Tensor x = to_host(t->tensor);
    out.write(bytes_of(x));
  }
  out.commit();
}

}  // namespace mt
