// An image that is wanted of every rank is made before this rank takes anything of another rank:
// adopts a record, folds contributions into a result, receives a message, sees that its own message
// was matched. The images of one number are then a consistent state of the job: what a rank took
// before its image was shown before the images of all other ranks. PROTOCOL.md, "Sets of images".
#pragma once

#include <cstdint>

#include "journal/layout.h"
#include "journal/own.h"

namespace rejoin::recovery {

// What became of a wanted image.
enum class Imaged : std::uint8_t {
  kNone,    // none was wanted
  kGoesOn,  // it was made, or cannot be made; this process goes on
  kWoken,   // this is the image, woken as the rank's next incarnation
};

class ImageMaker {
 public:
  // Makes the image of this number now, in the middle of an operation.
  virtual Imaged make_inside(std::uint64_t number) = 0;

 protected:
  ~ImageMaker() = default;
};

class Taking {
 public:
  template <class H>
  explicit Taking(const H& host) : wanted_(journal::own_set_wanted(host)) {}
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;

  void set_maker(ImageMaker& maker) { maker_ = &maker; }
  // This process has made the image of this number, or cannot make it.
  void settled(std::uint64_t number) { settled_ = number > settled_ ? number : settled_; }
  std::uint64_t wanted() const { return wanted_.load(); }

  // Called behind the look that has found what is to be taken, before it is. If the result is not
  // kNone, the caller looks again.
  [[gnu::always_inline]] Imaged before() {
    const std::uint64_t wanted = wanted_.load();
    if (wanted <= settled_) [[likely]]
      return Imaged::kNone;
    return maker_ != nullptr ? maker_->make_inside(wanted) : Imaged::kNone;
  }

 private:
  const journal::AnyWord<std::uint64_t>& wanted_;
  ImageMaker* maker_ = nullptr;
  std::uint64_t settled_ = 0;
};

}  // namespace rejoin::recovery
