// svg_image.h -- SVG drawings as PNG files, by librsvg and cairo, which are opened at first use
#pragma once
#include <string>
#include <string_view>

namespace mt {

/// The PNG file of an SVG drawing on a white page, `zoom` pixels for each pixel or point of the
/// drawing. Throws where librsvg cannot be loaded, on what is not SVG, and on more than 16384 x 16384
/// pixels.
std::string svg_to_png(std::string_view svg, double zoom);

}  // namespace mt
