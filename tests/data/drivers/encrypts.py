# TLS proxy in front of a plain-text server. Arguments: host, port, certificate, key.
import asyncio, ssl, sys

async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()

async def serve(reader, writer):
    from_server, to_server = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    await asyncio.gather(pump(reader, to_server), pump(from_server, writer))

async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
