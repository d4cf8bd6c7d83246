#include "launcher/inspect/values.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

namespace rejoin::launcher {
namespace {

using engine::Element;

// Prints one element. Null for elements that cannot be printed.
using Print = std::string (*)(const char* at);

template <class T>
std::string number(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  char text[64];
  if constexpr (std::is_same_v<T, long double>) {
    // printf can print bit patterns of long double that are invalid numbers.
    return {text, text + std::snprintf(text, sizeof text, "%.21Lg", value)};
  } else {
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
  }
}
template <class T>
std::string complex(const char* at) {
  return "(" + number<T>(at) + "," + number<T>(at + sizeof(T)) + ")";
}
// Prints a value and its index (MINLOC and MAXLOC).
template <class T, class I>
std::string located(const char* at) {
  struct Pair {
    T value;
    I index;
  };
  return number<T>(at) + "@" + number<I>(at + offsetof(Pair, index));
}

struct Kind {
  const char* name;
  Print print;
};

// Indexed by Element.
constexpr Kind kKinds[engine::kElements] = {
    {"", nullptr},
    {"int8", number<std::int8_t>},
    {"int16", number<std::int16_t>},
    {"int32", number<std::int32_t>},
    {"int64", number<std::int64_t>},
    {"uint8", number<std::uint8_t>},
    {"uint16", number<std::uint16_t>},
    {"uint32", number<std::uint32_t>},
    {"uint64", number<std::uint64_t>},
    {"float", number<float>},
    {"double", number<double>},
    {"long double", number<long double>},
    {"float128", nullptr},
    {"complex float", complex<float>},
    {"complex double", complex<double>},
    {"complex long double", complex<long double>},
    {"complex float128", nullptr},
    {"float and int", located<float, int>},
    {"double and int", located<double, int>},
    {"long and int", located<long, int>},
    {"two ints", located<int, int>},
    {"short and int", located<short, int>},
    {"long double and int", located<long double, int>},
    {"two floats", located<float, float>},
    {"two doubles", located<double, double>},
};

// Indexed by Operator.
constexpr const char* kOperatorNames[engine::kOperators] = {
    "",   "max",         "min", "sum",    "product", "logical and", "and",   "logical or",
    "or", "logical xor", "xor", "maxloc", "minloc",  "replace",     "no_op", "user operator"};

}  // namespace

std::string elements_text(Element element, std::string_view bytes, std::size_t most) {
  const auto index = static_cast<std::size_t>(element);
  if (index >= engine::kElements || kKinds[index].print == nullptr) return {};
  const std::size_t size = engine::element_bytes(element);
  std::string text;
  const std::size_t count = bytes.size() / size;
  for (std::size_t i = 0; i < count && i < most; ++i) {
    text += (i == 0 ? "" : " ") + kKinds[index].print(bytes.data() + i * size);
  }
  return count > most ? text + " ..." : text;
}

const char* name_of(Element element) {
  const auto index = static_cast<std::size_t>(element);
  return index < engine::kElements ? kKinds[index].name : "";
}

const char* name_of(engine::Operator operation) {
  const auto index = static_cast<std::size_t>(operation);
  return index < engine::kOperators ? kOperatorNames[index] : "";
}

}  // namespace rejoin::launcher
