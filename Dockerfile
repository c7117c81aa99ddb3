# An image with the command line, and with TF.js for workers. In a clone: docker build -t cairn .
# A training's own image adds the model definition: FROM cairn, COPY model.mjs /model/
FROM node:20-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY . .
RUN npm run build

FROM node:20-slim
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --no-audit --no-fund
# TF.js computes gradients. It is no dependency of the package; in the root it is found by cairn and by model definitions.
RUN npm install --prefix / --no-save --no-audit --no-fund $(node -p " \
      const { devDependencies } = require('./package.json'); \
      Object.keys(devDependencies).filter((name) => name.startsWith('@tensorflow/')).map((name) => name + '@' + devDependencies[name]).join(' ')") && \
    npm cache clean --force
COPY --from=build /app/dist dist
COPY proto proto
COPY LICENSE ./
RUN ln -s /app /node_modules/cairn && ln -s /app/dist/bin/cairn.js /usr/local/bin/cairn && mkdir /model
USER node
WORKDIR /home/node
# The process that gets the signals is Node itself: cairn ends in order on SIGTERM.
ENTRYPOINT ["cairn"]
CMD ["--help"]
