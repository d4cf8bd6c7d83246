// For the libraries that call OpenSSL, in processes that fork while other threads do so: the child
// uses OpenSSL, too, so it must find its locks free. Threads still do so when a process exits, so
// nothing may have been freed by then.
#pragma once

#include <openssl/crypto.h>
#include <pthread.h>

namespace rejoin::launcher {

// Lives while a thread is in OpenSSL. A fork waits until no thread is.
class OpenSslCall {
 public:
  OpenSslCall() { pthread_rwlock_rdlock(&lock); }
  OpenSslCall(const OpenSslCall&) = delete;
  OpenSslCall& operator=(const OpenSslCall&) = delete;
  ~OpenSslCall() { pthread_rwlock_unlock(&lock); }

  // Frees what OpenSSL has for this thread. Else the end of the thread does that, outside of a
  // call.
  void forget_thread() { OPENSSL_thread_stop(); }

 private:
  static inline pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
  [[maybe_unused]] static inline const int frees_nothing_at_exit =
      OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  [[maybe_unused]] static inline const int watches_forks =
      pthread_atfork([] { pthread_rwlock_wrlock(&lock); }, [] { pthread_rwlock_unlock(&lock); },
                     [] { lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP; });
};

}  // namespace rejoin::launcher
