//! A listener whose connections can be cut by a handler, so that a client gets no byte of an answer.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The connection of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line(Arc<AtomicBool>);

impl Line {
    /// Nothing more is written: the answer that the handler returns next fails to be sent, and the server then closes
    /// the connection.
    pub(crate) fn cut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_cut(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn check(&self) -> io::Result<()> {
        if self.is_cut() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

/// A TCP listener whose streams belong to a [`Line`] and end when the server stops.
pub(crate) struct Lines {
    pub(crate) tcp: TcpListener,
    pub(crate) stopped: watch::Receiver<bool>,
}

/// A TCP stream that can be cut.
pub(crate) struct Stream {
    tcp: TcpStream,
    line: Line,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Listener for Lines {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.tcp.accept().await {
                Ok((tcp, from)) => {
                    // Without it, small answers wait for the client's delayed acknowledgement.
                    let _ = tcp.set_nodelay(true);
                    let mut stopped = self.stopped.clone();
                    let stopped = Box::pin(async move {
                        let _ = stopped.wait_for(|stopped| *stopped).await;
                    });
                    return (Stream { tcp, line: Line::default(), stopped }, from);
                }
                // A lost connection or no file descriptors left: others may still come.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

impl Connected<IncomingStream<'_, Lines>> for Line {
    fn connect_info(stream: IncomingStream<'_, Lines>) -> Self {
        stream.io().line.clone()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.line.is_cut() && self.stopped.as_mut().poll(cx).is_ready() {
            self.line.cut();
        }
        // The end of the stream: the server gives up the connection, whatever it is doing.
        if self.line.is_cut() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.line.check()?;
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.line.check()?;
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}
