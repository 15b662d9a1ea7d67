// svg_image.h -- SVG drawings to PNG with librsvg and cairo, which are loaded at first use
#pragma once
#include <string>
#include <string_view>

namespace mt {

/// Renders an SVG drawing on a white background as PNG, with `zoom` pixels per pixel or point of
/// the drawing. Throws Error if librsvg cannot be loaded, if the text is not SVG, and for more than
/// 16384 x 16384 pixels.
std::string svg_to_png(std::string_view svg, double zoom);

}  // namespace mt
