// npy.cpp -- NumPy's file formats: npy, one array, and npz, a zip archive of named arrays
#include "engine/io/tensor_files.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <unordered_set>

#include "engine/io/convert.h"
#include "engine/io/zip.h"

namespace mt {
namespace {

struct Header {
  const StoredType* type = nullptr;
  bool swapped = false, fortran = false;
  Shape shape;
};

/// Parses the header, a Python dictionary with three entries: {'descr': '<f4', 'fortran_order':
/// False, 'shape': (2, 3), }
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}
  Header read() {
    Header h;
    bool seen[3] = {};
    need('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      need(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0 || seen[which]) wrong();
      seen[which] = true;
      if (which == 0) type(h);
      else if (which == 1) h.fortran = truth();
      else shape(h.shape);
      if (!take(',')) {
        need('}');
        break;
      }
    }
    skip();
    if (!rest_.empty() || !seen[0] || !seen[1] || !seen[2]) wrong();
    return h;
  }

 private:
  [[noreturn]] static void wrong() { fail("its header is not as NumPy writes it"); }
  void skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void need(char c) {
    if (!take(c)) wrong();
  }
  bool word(std::string_view w) {
    skip();
    if (!rest_.starts_with(w)) return false;
    rest_.remove_prefix(w.size());
    return true;
  }
  std::string_view quoted() {
    skip();
    const char quote = rest_.empty() ? '\0' : rest_[0];
    if (quote != '\'' && quote != '"') wrong();
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) wrong();
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  void type(Header& h) {
    skip();
    if (!rest_.empty() && rest_[0] == '[')
      throw CannotHold("it holds records, which tensors do not; save their fields one by one");
    const std::string_view text = quoted();
    const char order = text.empty() ? '\0' : text[0];
    if (text.size() > 1 && text[1] == 'O')
      throw CannotHold("it holds Python objects, which only Python can read");
    const std::string_view name = text == "?" ? "b1"
                                  : order == '<' || order == '>' || order == '|' || order == '='
                                      ? text.substr(1)
                                      : text;
    h.type = find_stored([&](const StoredType& t) { return !name.empty() && name == t.npy; });
    if (!h.type)
      throw CannotHold(
          fmt::format("it has the type '{}', which tensors here do not have", printable(text, 20)));
    h.swapped = order == '>';
  }
  bool truth() {
    if (word("True")) return true;
    if (!word("False")) wrong();
    return false;
  }
  void shape(Shape& shape) {
    need('(');
    while (!take(')')) {
      skip();
      int64_t n = -1;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
      if (error != std::errc() || n < 0) wrong();
      rest_.remove_prefix(end - rest_.data());
      word("L");  // written by Python 2
      shape.push(n);
      if (!take(',')) {
        need(')');
        break;
      }
    }
  }
  std::string_view rest_;
};

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
  return HeaderReader(text).read();
}

Tensor parse_npy(Bytes& bytes) {
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

TensorFile parse_zip(const ZipReader& zip) {
  constexpr std::string_view kEnding = ".npy";
  TensorFile file;
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < zip.entries().size(); ++i) {
    std::string name = zip.entries()[i].name;
    if (!name.ends_with(kEnding)) fail("its entry '{}' is not a .npy file", printable(name));
    name.resize(name.size() - kEnding.size());
    if (!names.insert(name).second) fail("the name '{}' is repeated", printable(name));
    try {
      Bytes bytes = zip.open(i);
      file.tensors.push_back({name, parse_npy(bytes)});
    } catch (const CannotHold& e) {
      file.left_out.emplace_back(name, e.what());
    } catch (const Error& e) { fail("'{}': {}", printable(name), e.what()); }
  }
  check_some_held(file);
  return file;
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

Tensor parse_npy(const void* data, size_t size) {
  Bytes bytes(data, size);
  return parse_npy(bytes);
}
Tensor read_npy(const char* operation, const std::string& path) {
  Bytes bytes(open_regular(operation, path));
  return reading(operation, path, " is not a valid npy file", [&] { return parse_npy(bytes); });
}

TensorFile parse_npz(const void* data, size_t size) { return parse_zip(ZipReader(data, size)); }
TensorFile read_npz(const char* operation, const std::string& path) {
  RegularFile file = open_regular(operation, path);
  return reading(operation, path, " is not a valid npz file",
                 [&] { return parse_zip(ZipReader(std::move(file))); });
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
