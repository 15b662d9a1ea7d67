// npy.cpp -- NumPy's file formats: npy, one array, and npz, a zip archive of named arrays
#include "engine/io/tensor_files.h"

#include <fmt/format.h>

#include <cstring>
#include <unordered_set>

#include "engine/io/convert.h"
#include "engine/io/json.h"

namespace mt {
namespace {

struct Header {
  const StoredType* type = nullptr;
  bool swapped = false, fortran = false;
  Shape shape;
};

[[noreturn]] void wrong() { fail("its header is not as NumPy writes it"); }

/// Sets the type that a text such as '<f4' means.
void set_type(Header& h, const Json& descr) {
  if (descr.as<JsonList>())
    throw CannotHold("it holds records, which tensors do not; save their fields one by one");
  const std::string* const text = descr.as<std::string>();
  if (!text) wrong();
  if (text->size() > 1 && (*text)[1] == 'O')
    throw CannotHold("it holds Python objects, which only Python can read");
  const bool has_order = !text->empty() && std::strchr("<>|=", (*text)[0]);
  const std::string name = *text == "?" ? "b1" : text->substr(has_order);
  h.type = find_stored([&](const StoredType& t) { return !name.empty() && name == t.npy; });
  if (!h.type)
    throw CannotHold(
        fmt::format("it has the type '{}', which tensors here do not have", printable(*text, 20)));
  h.swapped = (*text)[0] == '>';
}

/// Parses the header, a Python dictionary with three entries, which is JSON with other marks:
/// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
Header parse_header(std::string text) {
  constexpr const char* kMarks[][2] = {
      {"'", "\""},  {"(", "["},  {")", "]"},  {"True", "true"}, {"False", "false"},
      {", }", "}"}, {",}", "}"}, {",]", "]"}, {"L,", ","},      {"L]", "]"}};  // 2L: Python 2
  for (const auto& [python, json] : kMarks) replace_all(text, python, json);
  Json dictionary;
  try {
    dictionary = parse_json(text);
  } catch (const Error&) { wrong(); }
  const JsonObject* const object = dictionary.as<JsonObject>();
  if (!object || object->size() != 3) wrong();
  Header h;
  for (const auto& [key, value] : *object) {
    const bool* const truth = value.as<bool>();
    const JsonList* const list = value.as<JsonList>();
    if (key == "descr") set_type(h, value);
    else if (key == "fortran_order" && truth) h.fortran = *truth;
    else if (key != "shape" || !list) wrong();
    else
      for (const Json& item : *list) {
        const int64_t* const n = item.as<int64_t>();
        if (!n || *n < 0) wrong();
        h.shape.push(*n);
      }
  }
  return h;
}

Header read_header(Bytes& bytes) {
  constexpr uint64_t kLongest = 1 << 20;
  uint8_t head[8], size[4] = {};
  if (bytes.read(head, 8) != 8 || std::memcmp(head, "\x93NUMPY", 6) != 0)
    fail("it does not begin with \\x93NUMPY");
  if (head[6] < 1 || head[6] > 3) fail("it has the version {}, 1 to 3 can be read", head[6]);
  const size_t digits = head[6] == 1 ? 2 : 4;
  bytes.need(size, digits, "its header");
  const uint64_t n = little_endian(size, 4);
  if (n > kLongest || n > bytes.at_most()) fail("its header of {} bytes is too long", n);
  std::string text(n, '\0');
  bytes.need(text.data(), n, "its header");
  return parse_header(std::move(text));
}

/// The header of the file, up to the values.
std::string header_of(const char* operation, const Tensor& x) {
  const char* const type = stored_by(x.dtype()).npy;
  if (!*type) fail("{}: NumPy has no {}; use x:float()", operation, dtype_name(x.dtype()));
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 item_size(x.dtype()) == 1 ? '|' : '<', type,
                                 fmt::join(x.shape(), ", "), x.dim() == 1 ? "," : "");
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  return std::string("\x93NUMPY\1\0", 8) + char(text.size() & 255) + char(text.size() >> 8) + text;
}

}  // namespace

Tensor parse_npy(Bytes&& bytes) {
  const Header h = read_header(bytes);
  const uint64_t need = uint64_t(checked_count("its shape", h.shape)) * uint64_t(h.type->size());
  if (need > bytes.at_most())
    fail("its shape {} needs {} bytes, {} are there", to_string(h.shape), need, bytes.at_most());
  Shape order = h.shape;
  const int n = order.size();
  if (h.fortran)
    for (int d = 0; d < n; ++d) order[d] = h.shape[n - 1 - d];
  const Tensor x = empty(order, h.type->dtype);
  read_stored(bytes, *h.type, x, h.swapped);
  if (!bytes.ended()) fail("bytes follow the values of its shape");
  if (!h.fortran || n < 2) return x;
  Shape stride = order;
  for (int d = 0; d < n; ++d) stride[d] = x.stride(n - 1 - d);
  return view_of(x, h.shape, stride, 0).detach();
}

TensorFile parse_npz(const ZipReader& zip) {
  constexpr std::string_view kEnding = ".npy";
  TensorFile file;
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < zip.entries().size(); ++i) {
    std::string name = zip.entries()[i].name;
    if (!name.ends_with(kEnding)) fail("its entry '{}' is not a .npy file", printable(name));
    name.resize(name.size() - kEnding.size());
    if (!names.insert(name).second) fail("the name '{}' is repeated", printable(name));
    try {
      file.tensors.push_back({name, parse_npy(zip.open(i))});
    } catch (const CannotHold& e) {
      file.left_out.emplace_back(name, e.what());
    } catch (const Error& e) { fail("'{}': {}", printable(name), e.what()); }
  }
  check_some_held(file);
  return file;
}

void write_npy(const char* operation, const std::string& path, const Tensor& x) {
  const std::string header = header_of(operation, x);
  FileWriter out(operation, path);
  out.write(header);
  out.write(bytes_of(x));
  out.commit();
}

void write_npz(const char* operation, const std::string& path,
               const std::vector<NamedTensor>& tensors, Tensor (*to_host)(const Tensor&)) {
  for (const NamedTensor& t : tensors) header_of(operation, t.tensor);
  FileWriter out(operation, path);
  ZipWriter zip(out);
  for (const NamedTensor& t : tensors) {
    const Tensor x = to_host(t.tensor);
    zip.add(t.name + ".npy", {header_of(operation, x), bytes_of(x)});
  }
  zip.finish();
  out.commit();
}

}  // namespace mt
