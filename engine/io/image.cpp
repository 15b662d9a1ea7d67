// image.cpp -- PNG and JPEG: decoding and encoding; SVG drawings to PNG
#include "engine/io/formats.h"

#include <png.h>
#include <turbojpeg.h>

#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/io/required_library.h"

extern "C" {
// of glib.h and gio/gio.h
struct GError {
  uint32_t domain;
  int code;
  char* message;
};
void g_error_free(GError*);
void g_object_unref(void*);
void* g_memory_input_stream_new_from_data(const void* data, ptrdiff_t size, void (*destroy)(void*));
// of librsvg/rsvg.h
struct RsvgRectangle {
  double x, y, width, height;
};
void* rsvg_handle_new_from_stream_sync(void* stream, void* file, int flags, void* cancellable,
                                       GError**);
void rsvg_handle_set_dpi(void* handle, double dpi);
int rsvg_handle_get_intrinsic_size_in_pixels(void* handle, double* width, double* height);
int rsvg_handle_render_document(void* handle, void* context, const RsvgRectangle*, GError**);
// of cairo.h
void* cairo_image_surface_create_for_data(unsigned char*, int format, int width, int height,
                                          int stride);
void cairo_surface_destroy(void* surface);
int cairo_surface_write_to_png_stream(void* surface,
                                      int (*write)(void*, const unsigned char*, unsigned),
                                      void* closure);
void* cairo_create(void* surface);
void cairo_destroy(void* context);
const char* cairo_status_to_string(int status);
}

namespace mt {
namespace {

constexpr uint64_t kMaxPixels = 178956970;

struct Png : RequiredLibrary {
  Png() : RequiredLibrary("PNG images", "libpng16-16", {"libpng16.so.16"}) {}
};
#define PNG(name) MT_LOADED(Png, name)

struct Jpeg : RequiredLibrary {
  Jpeg() : RequiredLibrary("JPEG images", "libturbojpeg0", {"libturbojpeg.so.0"}) {}
};
#define JPEG(name) MT_LOADED(Jpeg, name)

void check_size(const char* format, uint64_t width, uint64_t height) {
  if (width == 0 || height == 0) fail("a {} of {} x {} pixels", format, width, height);
  if (width * height > kMaxPixels)
    fail("a {} of {} x {} pixels; at most {} are read", format, width, height, kMaxPixels);
}

// ---- channels ------------------------------------------------------------------------------------

/// Converts pixels with interleaved channels, as in files, to planes.
Tensor planes(const uint8_t* in, int64_t height, int64_t width, int channels) {
  const Tensor out = empty({channels, height, width}, Dtype::u8);
  const int64_t n = height * width;
  if (channels == 1) return std::memcpy(out.data(), in, n), out;
  for (int c = 0; c < channels; ++c) {
    uint8_t* const plane = out.data_as<uint8_t>() + c * n;
    for (int64_t i = 0; i < n; ++i) plane[i] = in[i * channels + c];
  }
  return out;
}
std::vector<uint8_t> side_by_side(const Tensor& x) {
  const int64_t channels = x.size(0), n = x.size(1) * x.size(2);
  std::vector<uint8_t> out(x.numel());
  for (int64_t c = 0; c < channels; ++c) {
    const uint8_t* const plane = x.data_as<uint8_t>() + c * n;
    for (int64_t i = 0; i < n; ++i) out[i * channels + c] = plane[i];
  }
  return out;
}

/// Gray is 0.299 R + 0.587 G + 0.114 B (ITU-R 601), as Pillow in 16 bits; new alpha is opaque.
Tensor convert(const Tensor& x, int64_t channels) {
  const int64_t given = x.size(0), n = x.size(1) * x.size(2);
  if (channels == 0 || channels == given) return x;
  const Tensor y = empty({channels, x.size(1), x.size(2)}, Dtype::u8);
  const uint8_t* const in = x.data_as<uint8_t>();
  uint8_t* const out = y.data_as<uint8_t>();
  const bool colours = given >= 3;
  const int64_t tones = channels >= 3 ? 3 : 1;
  if (colours && tones == 1) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = uint8_t((in[i] * 19595 + in[n + i] * 38470 + in[2 * n + i] * 7471 + 0x8000) >> 16);
  } else {
    for (int64_t c = 0; c < tones; ++c) std::memcpy(out + c * n, in + (colours ? c * n : 0), n);
  }
  if (channels % 2 == 0) {
    if (given % 2 == 0) std::memcpy(out + tones * n, in + (given - 1) * n, n);
    else std::memset(out + tones * n, 255, n);
  }
  return y;
}

// ---- PNG -----------------------------------------------------------------------------------------

/// Reads a file in memory with libpng, and keeps its error message.
class PngReader {
 public:
  PngReader(const uint8_t* data, size_t size) : left_(data, size) {
    png_ = PNG(png_create_read_struct)(PNG_LIBPNG_VER_STRING, this, failed,
                                       [](png_structp, png_const_charp) {});  // warnings
    if (png_) info_ = PNG(png_create_info_struct)(png_);
    if (!info_) message_ = "no memory";
  }
  PngReader(const PngReader&) = delete;
  ~PngReader() { PNG(png_destroy_read_struct)(&png_, &info_, nullptr); }

  /// Reads the size of the image, and selects the transformations to 8 bits: palettes become RGB,
  /// transparent colours become alpha, fewer bits are expanded, of 16 bits the high byte is kept
  /// (as Pillow reads colours). Gamma and colour profiles are ignored.
  void read_header() {
    try_to([](PngReader& r) {
      PNG(png_set_benign_errors)(r.png_, 1);
      PNG(png_set_read_fn)(r.png_, &r, read);
      PNG(png_read_info)(r.png_, r.info_);
      PNG(png_set_expand)(r.png_);
      PNG(png_set_strip_16)(r.png_);
      PNG(png_set_interlace_handling)(r.png_);
      PNG(png_read_update_info)(r.png_, r.info_);
    });
  }
  uint64_t width() const { return PNG(png_get_image_width)(png_, info_); }
  uint64_t height() const { return PNG(png_get_image_height)(png_, info_); }
  int channels() const { return PNG(png_get_channels)(png_, info_); }
  size_t row_bytes() const { return PNG(png_get_rowbytes)(png_, info_); }
  void read_rows(std::vector<uint8_t*>& rows) {
    rows_ = rows.data();
    try_to([](PngReader& r) { PNG(png_read_image)(r.png_, r.rows_); });
  }

 private:
  /// On an error libpng leaves f with longjmp, so f must not have objects with destructors.
  void try_to(void (*f)(PngReader&)) {
    if (message_.empty() && setjmp(*PNG(png_set_longjmp_fn)(png_, longjmp, sizeof(jmp_buf))) == 0)
      f(*this);
    if (!message_.empty()) fail("a PNG: {}", message_);
  }
  static void failed(png_structp p, png_const_charp message) {
    static_cast<PngReader*>(PNG(png_get_error_ptr)(p))->message_ = message;
    PNG(png_longjmp)(p, 1);
  }
  static void read(png_structp p, png_bytep to, size_t n) {
    PngReader& r = *static_cast<PngReader*>(PNG(png_get_io_ptr)(p));
    if (n > r.left_.size()) PNG(png_error)(p, "the file ends too early");
    std::memcpy(to, r.left_.data(), n);
    r.left_ = r.left_.subspan(n);
  }

  std::span<const uint8_t> left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  uint8_t** rows_ = nullptr;
  std::string message_;
};

Tensor decode_png(const uint8_t* data, size_t size) {
  // Deflate compresses by at most 1032 to 1: memory is not allocated for a header that claims more.
  constexpr int kSamples[] = {1, 0, 3, 1, 2, 0, 4};
  PngReader reader(data, size);
  reader.read_header();
  const uint64_t width = reader.width(), height = reader.height();
  check_size("PNG", width, height);
  const int depth = data[24], samples = kSamples[data[25] <= 6 ? data[25] : 1];
  const uint64_t row = 1 + (width * uint64_t(depth * samples) + 7) / 8;
  if (row * height > uint64_t(size) * 1032 + 65536)
    fail("a PNG of {} x {} pixels, more than its {} bytes can hold", width, height, size);
  std::vector<uint8_t> pixels(reader.row_bytes() * height);
  std::vector<uint8_t*> rows(height);
  for (size_t y = 0; y < height; ++y) rows[y] = pixels.data() + y * reader.row_bytes();
  reader.read_rows(rows);
  return planes(pixels.data(), int64_t(height), int64_t(width), reader.channels());
}

// ---- JPEG ----------------------------------------------------------------------------------------

struct Turbo {
  tjhandle handle;
  explicit Turbo(tjhandle h) : handle(h) {
    if (!h) fail("a JPEG: no memory");
  }
  Turbo(const Turbo&) = delete;
  ~Turbo() { JPEG(tjDestroy)(handle); }
  std::string_view message() const { return JPEG(tjGetErrorStr2)(handle); }
  /// Only the warning about bytes between two markers is harmless; all others report missing data.
  bool is_harmless() const { return message().find("extraneous bytes") != std::string_view::npos; }
};

Tensor decode_jpeg(const uint8_t* data, size_t size) {
  const Turbo turbo(JPEG(tjInitDecompress)());
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (JPEG(tjDecompressHeader3)(turbo.handle, data, size, &width, &height, &sampling, &colours) &&
      !turbo.is_harmless())
    fail("a JPEG: {}", turbo.message());
  check_size("JPEG", uint64_t(width), uint64_t(height));
  // Every 8 x 8 block has a DC coefficient of at least one bit; twice as many are accepted.
  if (uint64_t(width) * uint64_t(height) > uint64_t(size) * 1024 + 65536)
    fail("a JPEG of {} x {} pixels, more than its {} bytes can hold", width, height, size);
  const bool four = colours == TJCS_CMYK || colours == TJCS_YCCK;
  const int format = colours == TJCS_GRAY ? TJPF_GRAY : four ? TJPF_CMYK : TJPF_RGB;
  const int channels = colours == TJCS_GRAY ? 1 : four ? 4 : 3;
  std::vector<uint8_t> pixels(size_t(width) * size_t(height) * size_t(channels));
  const auto decompress = [&](int flags) {
    return JPEG(tjDecompress2)(turbo.handle, data, size, pixels.data(), width, 0, height, format,
                               flags | TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) == 0;
  };
  if (!decompress(TJFLAG_STOPONWARNING) &&
      (!turbo.is_harmless() || (!decompress(0) && !turbo.is_harmless())))
    fail("a JPEG: {}", turbo.message());
  if (!four) return planes(pixels.data(), height, width, channels);
  // Such files store inverted inks (Adobe).
  std::vector<uint8_t> rgb(pixels.size() / 4 * 3);
  for (size_t i = 0; i < pixels.size() / 4; ++i)
    for (size_t c = 0; c < 3; ++c)
      rgb[3 * i + c] = uint8_t((pixels[4 * i + c] * pixels[4 * i + 3] + 127) / 255);
  return planes(rgb.data(), height, width, 3);
}

void check_pixels(const char* format, const Tensor& x) {
  if (x.dim() != 3 || x.dtype() != Dtype::u8 || !x.is_contiguous() || x.numel() == 0)
    fail("a {} needs uint8 [channels x height x width], got {}", format, to_string(x.shape()));
}

}  // namespace

Tensor decode_image(std::string_view file, int channels) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(file.data());
  if (file.size() >= 33 && file.starts_with("\x89PNG\r\n\x1a\n"))
    return convert(decode_png(bytes, file.size()), channels);
  if (file.starts_with("\xff\xd8\xff")) return convert(decode_jpeg(bytes, file.size()), channels);
  fail("it is neither a PNG nor a JPEG");
}

std::string encode_png(const Tensor& x) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  check_pixels("PNG", x);
  if (x.size(0) > 4) fail("a PNG has 1 to 4 channels, got {}", x.size(0));
  if (x.numel() > INT32_MAX) fail("a PNG of {} x {} pixels is not written", x.size(2), x.size(1));
  png_image image{};
  image.version = PNG_IMAGE_VERSION, image.format = kFormats[x.size(0) - 1];
  image.width = png_uint_32(x.size(2)), image.height = png_uint_32(x.size(1));
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(size, '\0');
  if (!PNG(png_image_write_to_memory)(&image, out.data(), &size, 0, side_by_side(x).data(), 0,
                                      nullptr))
    fail("a PNG: {}", image.message);
  out.resize(size);
  return out;
}

std::string encode_jpeg(const Tensor& x, int quality) {
  check_pixels("JPEG", x);
  if (x.size(0) != 1 && x.size(0) != 3) fail("a JPEG has 1 or 3 channels, got {}", x.size(0));
  if (x.size(1) > 65500 || x.size(2) > 65500)
    fail("a JPEG has at most 65500 x 65500 pixels, got {} x {}", x.size(2), x.size(1));
  const Turbo turbo(JPEG(tjInitCompress)());
  const bool gray = x.size(0) == 1;
  unsigned char* made = nullptr;
  unsigned long size = 0;
  const bool good =
      JPEG(tjCompress2)(turbo.handle, side_by_side(x).data(), int(x.size(2)), 0, int(x.size(1)),
                        gray ? TJPF_GRAY : TJPF_RGB, &made, &size, gray ? TJSAMP_GRAY : TJSAMP_420,
                        quality, TJFLAG_ACCURATEDCT) == 0;
  const std::string message(good ? "" : turbo.message());
  std::string out(reinterpret_cast<const char*>(made), good ? size : 0);
  JPEG(tjFree)(made);
  if (!good) fail("a JPEG: {}", message);
  return out;
}

// ---- SVG drawings to PNG, with librsvg and cairo --------------------------------------------------

namespace {

/// librsvg depends on cairo and GLib: dlsym also searches the dependencies of a library.
struct Rsvg : RequiredLibrary {
  Rsvg() : RequiredLibrary("pictures of figures as PNG", "librsvg2-2", {"librsvg-2.so.2"}) {}
};
#define RSVG(name) MT_LOADED(Rsvg, name)

using Owner = std::unique_ptr<void, void (*)(void*)>;

[[noreturn]] void fail_with(GError* error) {
  std::string message = error ? error->message : "no reason is given";
  if (error) RSVG(g_error_free)(error);
  message = message.substr(0, message.find('\n'));
  fail("librsvg cannot draw it: {}", message);
}

Owner parse(std::string_view svg) {
  constexpr int kUnlimited = 1;  // embedded images may be texts of more than 10 MB
  const Owner stream(
      RSVG(g_memory_input_stream_new_from_data)(svg.data(), ptrdiff_t(svg.size()), nullptr),
      RSVG(g_object_unref));
  GError* error = nullptr;
  Owner drawing(
      RSVG(rsvg_handle_new_from_stream_sync)(stream.get(), nullptr, kUnlimited, nullptr, &error),
      RSVG(g_object_unref));
  if (!drawing) fail_with(error);
  RSVG(rsvg_handle_set_dpi)(drawing.get(), 72);  // a point is a pixel
  return drawing;
}

int append(void* text, const unsigned char* bytes, unsigned size) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), size);
  return 0;
}

}  // namespace

std::string svg_to_png(std::string_view svg, double zoom) {
  constexpr double kMaxSide = 16384;
  constexpr int kRgb24 = 1;  // 32 bits for each pixel
  const Owner drawing = parse(svg);
  RsvgRectangle page{};
  if (!RSVG(rsvg_handle_get_intrinsic_size_in_pixels)(drawing.get(), &page.width, &page.height))
    fail("the SVG drawing has no size in pixels");
  page.width *= zoom, page.height *= zoom;
  if (!(page.width > 0 && page.height > 0 && page.width <= kMaxSide && page.height <= kMaxSide))
    fail("a picture of {:.0f} x {:.0f} pixels; from 1 x 1 to {} x {} are drawn", page.width,
         page.height, kMaxSide, kMaxSide);
  const int width = int(std::ceil(page.width)), height = int(std::ceil(page.height));
  const Tensor pixels = empty({height, width, 4}, Dtype::u8);
  std::memset(pixels.data(), 255, size_t(pixels.numel()));  // a white background
  const Owner surface(RSVG(cairo_image_surface_create_for_data)(pixels.data_as<uint8_t>(), kRgb24,
                                                                width, height, 4 * width),
                      RSVG(cairo_surface_destroy));
  {
    const Owner context(RSVG(cairo_create)(surface.get()), RSVG(cairo_destroy));
    GError* error = nullptr;
    if (!RSVG(rsvg_handle_render_document)(drawing.get(), context.get(), &page, &error))
      fail_with(error);
  }
  std::string out;
  if (const int status = RSVG(cairo_surface_write_to_png_stream)(surface.get(), append, &out))
    fail("cairo cannot write the PNG: {}", RSVG(cairo_status_to_string)(status));
  return out;
}

}  // namespace mt
