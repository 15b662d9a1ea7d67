// catch.h -- one include for Catch2 version 2 (Debian 12) and version 3
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;  // version 2 shows it everywhere
#else
#define CATCH_CONFIG_FAST_COMPILE
#include <catch2/catch.hpp>
#endif
