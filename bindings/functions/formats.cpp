// formats.cpp -- C functions for data/formats.lua: files of other programs as Lua values
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "bindings/functions/functions.h"
#include "engine/io/bytes.h"
#include "engine/io/download.h"
#include "engine/io/formats.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt::lua {
namespace {

/// f(text) for the text of a file, decompressed if it is gzip; errors start with the operation and
/// the path. A plain file is read into a tensor's memory, which is not zeroed first.
auto parse_file(const char* operation, const std::string& path, const auto& f) {
  Bytes bytes(open_regular(operation, path));
  return reading(operation, path, "", [&] {
    if (bytes.packed()) return f(std::string_view(bytes.rest()));
    const Tensor memory = empty({int64_t(bytes.at_most())}, Dtype::u8);
    const size_t size = bytes.read(memory.data(), memory.numel());
    return f(std::string_view(memory.data_as<char>(), size));
  });
}

/// Returns the names in order, and a list of columns: tensors and lists of strings.
int read_csv(Args& a) {
  const std::string path = a.text(1), delimiter = a.text(3);
  CsvOptions options{a.boolean(2), ',', a.boolean(5), a.strings(4), a.strings(6)};
  if (!delimiter.empty()) options.delimiter = delimiter[0];
  const std::vector<CsvColumn> columns =
      parse_file("csv", path, [&](std::string_view text) { return parse_csv(text, options); });
  lua_createtable(a.L, int(columns.size()), 0);
  lua_createtable(a.L, int(columns.size()), 0);
  for (size_t k = 0; k < columns.size(); ++k) {
    const CsvColumn& c = columns[k];
    a.push(c.name);
    lua_rawseti(a.L, -3, int(k + 1));
    c.numbers.defined() ? a.push(c.numbers) : a.push(c.text);
    lua_rawseti(a.L, -2, int(k + 1));
  }
  return 2;
}

std::string shape_text(const Tensor& x) { return to_string(x.shape()); }

/// The pixels of a PNG or JPEG; channels=0 keeps those of the file.
Tensor read_image(const std::string& path, int64_t channels) {
  return parse_file("image", path,
                    [&](std::string_view text) { return decode_image(text, int(channels)); });
}
/// The images of files of one size, [n x channels x height x width]; decoded by all threads.
Tensor read_images(const std::vector<std::string>& paths, int64_t channels) {
  if (paths.empty()) fail("image: the list of paths is empty");
  TensorList images(paths.size());
  std::vector<std::string> errors(paths.size());
  parallel(int64_t(paths.size()), true, [&](int64_t i) {
    try {
      images[i] = read_image(paths[i], channels);
    } catch (const std::exception& e) { errors[i] = e.what(); }
  });
  check_interrupt();
  Shape shape{int64_t(paths.size())};
  for (size_t k = 0; k < paths.size(); ++k) {
    if (!errors[k].empty()) throw Error(errors[k]);
    if (images[k].shape() != images[0].shape())
      fail("image: '{}' is {} and '{}' is {}; a transform can bring them to one size", paths[0],
           shape_text(images[0]), paths[k], shape_text(images[k]));
  }
  for (const int64_t n : images[0].shape()) shape.push(n);
  const Tensor out = empty(shape, Dtype::u8);
  for (size_t k = 0; k < paths.size(); ++k)
    std::copy_n(images[k].data_as<uint8_t>(), images[k].numel(),
                out.data_as<uint8_t>() + int64_t(k) * images[k].numel());
  return out;
}

/// The names in a folder, sorted by bytes: two lists, of files and of folders.
int list_folder(Args& a) {
  namespace fs = std::filesystem;
  const std::string operation = a.text(1), path = a.text(2);
  std::vector<std::string> names[2];
  std::error_code ec;
  for (fs::directory_iterator at(path, ec), end; !ec && at != end; at.increment(ec)) {
    std::error_code ignored;
    const bool folder = at->is_directory(ignored);
    if (folder || at->is_regular_file(ignored))
      names[folder].push_back(at->path().filename().string());
  }
  if (ec) fail("{}: cannot read the folder '{}': {}", operation, path, ec.message());
  for (auto& list : names) std::ranges::sort(list);
  return a.push(names[0], names[1]);
}

/// Shows the progress of a download on a terminal, several times per second.
class Meter {
 public:
  Meter(const std::string& name, bool wanted) : name_(name), on_(wanted && isatty(STDERR_FILENO)) {}
  Meter(const Meter&) = delete;
  ~Meter() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  void operator()(uint64_t done, uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (!on_ || now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now, shown_ = true;
    const std::string part =
        total ? fmt::format("{} % of {:.1f} MB", done * 100 / total, double(total) / 1e6)
              : fmt::format("{:.1f} MB", double(done) / 1e6);
    std::fputs(fmt::format("\r\x1b[K{}: {}", name_, part).c_str(), stderr);
  }

 private:
  const std::string name_;
  const bool on_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

void fetch(const std::string& url, const std::string& path, const std::string& sha256,
           const std::string& md5, bool progress, double max_bytes) {
  Meter meter(path.substr(path.rfind('/') + 1), progress);
  download(url, path, {sha256, md5, uint64_t(max_bytes)},
           [&](uint64_t done, uint64_t total) { meter(done, total); });
}

int read_wav(Args& a) {
  const Sound sound = parse_file("wav", a.text(1), parse_wav);
  return a.push(sound.samples, sound.rate);
}

std::string svg_png(const std::string& operation, const std::string& svg, double zoom) {
  try {
    return svg_to_png(svg, zoom);
  } catch (const Error& e) { fail("{}: {}; a .svg needs no library", operation, e.what()); }
}

const Entry kFormats[] = {
    {"csv(path, header, delimiter, columns=nil, quotes=true, text=nil)",
     "The names of the columns, and the columns.", read_csv},
    {"read(operation, path)", "The bytes of a file, unpacked.",
     bind<[](const std::string& operation, const std::string& path) {
       return read_by([](Bytes&& bytes) { return bytes.rest(); }, operation.c_str(), path,
                      " cannot be read");
     }>},
    {"image(path, channels)", "The pixels of a PNG or JPEG; channels=0 keeps those of the file.",
     bind<read_image>},
    {"images(paths, channels)", "The images of a list of files of one size, stacked.",
     bind<read_images>},
    {"list_folder(operation, path)", "The names of the files, and of the folders.", list_folder},
    {"digest(kind, bytes)", "A checksum as hexadecimal text: sha256 or md5.", bind<digest>},
    {"download(url, path, sha256, md5, progress, most)",
     "Fetches a file; see engine/io/download.h.", bind<fetch>},
    {"encode_png(x)", "A PNG of uint8 [channels x height x width].", bind<encode_png>},
    {"svg_to_png(operation, svg, zoom)", "A PNG of an SVG drawing; see engine/io/formats.h.",
     bind<svg_png>},
    {"encode_jpeg(x, quality)", "A JPEG of uint8 [channels x height x width].",
     bind<[](const Tensor& x, int64_t quality) { return encode_jpeg(x, int(quality)); }>},
    {"wav(path)", "Samples [channels x frames], and the sample rate.", read_wav},
    {"encode_wav(x, rate, bits)", "A WAV of samples [channels x frames]; bits=0 keeps the type.",
     bind<[](const Tensor& x, int64_t rate, int64_t bits) {
       return write_wav(x, rate, int(bits));
     }>},
};

}  // namespace

void add_formats(lua_State* L) { add_internal(L, kFormats); }

}  // namespace mt::lua
