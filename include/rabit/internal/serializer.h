// The format of values in a dmlc::Stream; included by rabit/serializable.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace dmlc {
namespace serializer {

template <typename T>
struct HasSaveAndLoad {
  template <typename U>
  static auto test(int)
      -> decltype(std::declval<const U&>().Save(static_cast<Stream*>(nullptr)),
                  std::declval<U&>().Load(static_cast<Stream*>(nullptr)), std::true_type());
  template <typename>
  static std::false_type test(...);
  static constexpr bool value = decltype(test<T>(0))::value;
};

template <typename T>
struct IsBytes {
  static constexpr bool value = std::is_trivially_copyable<T>::value &&
                                !std::is_pointer<T>::value && !HasSaveAndLoad<T>::value;
};

template <typename T, typename Enable = void>
struct Handler {
  static_assert(sizeof(T) == 0, "this type cannot be written to a rabit::Stream");
};

template <typename T>
struct Handler<T, typename std::enable_if<IsBytes<T>::value>::type> {
  static void write(Stream* to, const T& value) { to->Write(&value, sizeof(T)); }
  static bool read(Stream* from, T* value) { return from->Read(value, sizeof(T)) == sizeof(T); }
};

template <typename T>
struct Handler<T, typename std::enable_if<HasSaveAndLoad<T>::value>::type> {
  static void write(Stream* to, const T& value) { value.Save(to); }
  static bool read(Stream* from, T* value) {
    value->Load(from);
    return true;
  }
};

inline void write_length(Stream* to, std::size_t length) {
  Handler<std::uint64_t>::write(to, length);
}

// Writes and reads all elements at once, for std::string and vectors of plain values.
template <typename Container>
struct Contiguous {
  typedef typename Container::value_type Value;
  static void write(Stream* to, const Container& values) {
    write_length(to, values.size());
    if (!values.empty()) to->Write(values.data(), values.size() * sizeof(Value));
  }
  static bool read(Stream* from, Container* values) {
    std::uint64_t length = 0;
    if (!Handler<std::uint64_t>::read(from, &length)) return false;
    values->resize(length);
    if (length == 0) return true;
    const std::size_t size = length * sizeof(Value);
    return from->Read(&(*values)[0], size) == size;
  }
};

// A map's elements have a constant key, which cannot be read into.
template <typename T>
struct Assignable {
  typedef T type;
};
template <typename K, typename V>
struct Assignable<std::pair<const K, V>> {
  typedef std::pair<K, V> type;
};

template <typename Container>
struct Elementwise {
  typedef typename Assignable<typename Container::value_type>::type Value;
  static void write(Stream* to, const Container& values) {
    write_length(to, values.size());
    for (const auto& value : values) {
      Handler<typename Assignable<typename Container::value_type>::type>::write(to, value);
    }
  }
  static bool read(Stream* from, Container* values) {
    std::uint64_t length = 0;
    if (!Handler<std::uint64_t>::read(from, &length)) return false;
    values->clear();
    for (std::uint64_t i = 0; i < length; ++i) {
      Value value{};
      if (!Handler<Value>::read(from, &value)) return false;
      values->insert(values->end(), std::move(value));
    }
    return true;
  }
};

template <typename A, typename B>
struct Handler<std::pair<A, B>, typename std::enable_if<!IsBytes<std::pair<A, B>>::value>::type> {
  static void write(Stream* to, const std::pair<A, B>& value) {
    Handler<A>::write(to, value.first);
    Handler<B>::write(to, value.second);
  }
  static bool read(Stream* from, std::pair<A, B>* value) {
    return Handler<A>::read(from, &value->first) && Handler<B>::read(from, &value->second);
  }
};

template <typename T>
struct Handler<std::basic_string<T>> : Contiguous<std::basic_string<T>> {};
template <typename T, typename A>
struct Handler<std::vector<T, A>>
    : std::conditional<IsBytes<T>::value && !std::is_same<T, bool>::value,
                       Contiguous<std::vector<T, A>>, Elementwise<std::vector<T, A>>>::type {};
template <typename T, typename A>
struct Handler<std::deque<T, A>> : Elementwise<std::deque<T, A>> {};
template <typename T, typename A>
struct Handler<std::list<T, A>> : Elementwise<std::list<T, A>> {};
template <typename K, typename C, typename A>
struct Handler<std::set<K, C, A>> : Elementwise<std::set<K, C, A>> {};
template <typename K, typename C, typename A>
struct Handler<std::multiset<K, C, A>> : Elementwise<std::multiset<K, C, A>> {};
template <typename K, typename V, typename C, typename A>
struct Handler<std::map<K, V, C, A>> : Elementwise<std::map<K, V, C, A>> {};
template <typename K, typename V, typename C, typename A>
struct Handler<std::multimap<K, V, C, A>> : Elementwise<std::multimap<K, V, C, A>> {};
// The order of elements depends on the library and on the order of insertion, so ranks may write
// different bytes for equal unordered sets and maps. They must not be in a global model.
template <typename K, typename H, typename E, typename A>
struct Handler<std::unordered_set<K, H, E, A>> : Elementwise<std::unordered_set<K, H, E, A>> {};
template <typename K, typename V, typename H, typename E, typename A>
struct Handler<std::unordered_map<K, V, H, E, A>> : Elementwise<std::unordered_map<K, V, H, E, A>> {
};

}  // namespace serializer
}  // namespace dmlc
