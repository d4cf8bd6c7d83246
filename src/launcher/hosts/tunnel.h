// The encryption of a connection between relays. A link's socket is used by several processes, none
// of which can have the state of TLS: they use one end of a pair of Unix sockets, and a thread
// moves bytes between the other end and the connection.
#pragma once

#include "launcher/base/file.h"
#include "launcher/hosts/tls.h"

namespace rejoin::launcher {

// Makes the handshake with `secret`, within two seconds, and starts the thread. Returns the end in
// clear; closed: the other side does not know the secret, or does not encrypt. When either end is
// closed or broken, so is the other; what was on its way is dropped. The thread ends with its
// process, and must not live to see exit().
Descriptor open_tunnel(Descriptor socket, const TlsLibrary& library, TlsSide side,
                       const std::string& secret);

}  // namespace rejoin::launcher
