# Debian 12 with the packages of scripts/setup in place of Conan's.
include(default)

[settings]
compiler.cppstd=20

[platform_requires]
fmt/9.1.0
nlohmann_json/3.11.2
xxhash/0.8.1
openssl/3.0.15
