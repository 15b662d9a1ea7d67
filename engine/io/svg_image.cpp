// svg_image.cpp -- SVG drawings to PNG with librsvg and cairo, which are loaded at first use
#include "engine/io/formats.h"

#include <cmath>
#include <cstring>
#include <memory>

#include "engine/core/tensor.h"
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
