// The version of this library, for the preprocessor.
//
// This file is its one source: CMake and the packages read it from here.
#pragma once

// 0 until programs that compile with one version also compile with the next ones.
#define FSDP_VERSION_MAJOR 0
// Rises with new features. While the major version is 0, programs may have to change, too.
#define FSDP_VERSION_MINOR 1
// Rises with corrections.
#define FSDP_VERSION_PATCH 0

// One number to compare, with two decimal digits for minor and patch: `#if FSDP_VERSION >= 200` is true from 0.2.0 on.
#define FSDP_VERSION (FSDP_VERSION_MAJOR * 10000 + FSDP_VERSION_MINOR * 100 + FSDP_VERSION_PATCH)

// Part of FSDP_VERSION_STRING: a number as it is written.
#define FSDP_VERSION_DIGITS(number) #number
// Part of FSDP_VERSION_STRING: three numbers with dots between them.
#define FSDP_VERSION_DOTTED(major, minor, patch) \
  FSDP_VERSION_DIGITS(major) "." FSDP_VERSION_DIGITS(minor) "." FSDP_VERSION_DIGITS(patch)
// The version as text: "0.1.0".
#define FSDP_VERSION_STRING FSDP_VERSION_DOTTED(FSDP_VERSION_MAJOR, FSDP_VERSION_MINOR, FSDP_VERSION_PATCH)
